import sys

from lockstep_weights.cli import main

sys.exit(main())
