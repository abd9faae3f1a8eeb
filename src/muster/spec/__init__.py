"""The job: what the user wrote, its checks and its dialects. Pure: no network, no processes."""
