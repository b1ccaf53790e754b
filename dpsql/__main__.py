"""`python -m dpsql` is the command `dpsql`."""

import sys

from dpsql.surfaces.cli import main

if __name__ == "__main__":
    sys.exit(main())
