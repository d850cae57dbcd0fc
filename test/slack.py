"""How far a test that runs beside others, on any machine, lets a time be off. `make soak` looks at what is required.

SHOAL_SLACK: by what factor longer than it says may take what has to come within so many seconds (3; in soak 1).
SHOAL_UNFAIR: by what factor longer than the first of like clients the last may take (5; in soak 2). Of ten, one that is
starved takes up to ten times as long.
"""
import os

SLACK = float(os.environ.get("SHOAL_SLACK", "3"))
UNFAIR = float(os.environ.get("SHOAL_UNFAIR", "5"))
