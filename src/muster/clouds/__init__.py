"""What stores and targets share of each cloud: credentials, sessions, and what its errors mean. Nothing of runs."""
