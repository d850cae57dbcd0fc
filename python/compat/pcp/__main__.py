"""python -m pcp: the command `shoal train`."""
import sys

from . import main

sys.exit(main())
