"""What can be shown on a real account of Oracle's cloud alone. It costs money: only `make test-oci` runs it.

- `MUSTER_TEST_OCI_TARGET`: a `muster.toml` with a target of the kind oci that names an `image` with PyTorch in it.
- `MUSTER_TEST_OCI_PATIENCE`: how many times as long as in a rehearsal things may take; 20 if it is not set.
- `MUSTER_TEST_OCI_MEMBER` and `MUSTER_TEST_OCI_GROUP`: a profile of a user with no rights but as a member of this
  group, for which the account of the target may write policies. Without them permissions are not looked at.

The same tests run in the rehearsal, which shows that they work and what the rehearsal assumes.
"""
