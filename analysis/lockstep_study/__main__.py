# SPDX-License-Identifier: BSD-3-Clause
import sys

from lockstep_study.cli import main

sys.exit(main())
