"""`python -m gt.worker`: lends this machine to a pool."""
