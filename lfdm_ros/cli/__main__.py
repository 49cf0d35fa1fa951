"""`python -m lfdm_ros.cli`: the `lfdm` command without an installed script."""

import sys

from lfdm_ros.cli.main import main

sys.exit(main())
