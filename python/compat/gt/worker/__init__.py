"""GT2's worker."""

BACKENDS = {"numpy": "ref", "pytorch": "cpu", "jax": "cpu"}  # what GT2 calls them
