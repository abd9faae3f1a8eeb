"""What the network and the account must allow: ports, policies, the doctor. Nothing here starts a node."""
