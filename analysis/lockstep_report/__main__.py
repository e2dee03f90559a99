# SPDX-License-Identifier: BSD-3-Clause
import sys

from lockstep_report.cli import main

sys.exit(main())
