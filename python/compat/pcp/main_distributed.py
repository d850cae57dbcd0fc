"""python -m main_distributed: PCP's command by the name that its documents have; it is `shoal train`."""
import sys

from shoal.train.command import main

if __name__ == "__main__":
    sys.exit(main())
