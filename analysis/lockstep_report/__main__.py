import sys

from lockstep_report.cli import main

sys.exit(main())
