# SPDX-License-Identifier: BSD-3-Clause
import sys

from lockstep_data.cli import main

sys.exit(main())
