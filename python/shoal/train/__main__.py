"""python -m shoal.train: the command `shoal train`."""
import sys

from .command import main

sys.exit(main())
