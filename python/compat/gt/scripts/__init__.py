"""GT2's tools: `python -m gt.scripts.top`, `trace` and `visualize`. They are Shoal's."""
