"""What Muster costs, each time beside a peer or a floor that is measured in the same run. Nothing here is shipped."""
