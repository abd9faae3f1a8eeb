"""Clouds in a box: servers on loopback that the real SDKs talk to. Nothing here is needed to run a job."""
