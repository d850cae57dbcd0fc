"""How much longer than it says may take what has to come within so many seconds: tests run beside others, on any machine.

SHOAL_SLACK: by what factor (3); 1 where nothing else runs, which `make soak` looks at.
"""
import os

SLACK = float(os.environ.get("SHOAL_SLACK", "3"))
