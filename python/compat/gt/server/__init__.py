"""`python -m gt.server`: the hub of a pool."""
