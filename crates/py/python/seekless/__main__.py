"""The program: ``python -m seekless trace stats data/mail``."""

import sys

from ._program import main

if __name__ == "__main__":
    sys.exit(main())
