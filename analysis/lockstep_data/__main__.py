import sys

from lockstep_data.cli import main

sys.exit(main())
