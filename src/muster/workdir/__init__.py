"""The work dir: its stores, the run's folder and its files, code bundles, logs and sync. No processes."""
