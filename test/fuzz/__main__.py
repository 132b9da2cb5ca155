"""`python test/fuzz`: see campaign.py."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from fuzz.campaign import main

    sys.exit(main())
