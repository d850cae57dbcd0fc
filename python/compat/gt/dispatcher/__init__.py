"""GT2's dispatcher: a hub."""
