"""PCP's command over Shoal: `main_distributed`, `python -m pcp`. It is `shoal train`."""
from shoal.train.command import main

__all__ = ["main"]
