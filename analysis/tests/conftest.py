# SPDX-License-Identifier: BSD-3-Clause
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
sys.path.append(str(Path(__file__).parents[2] / "build" / "python-packages"))  # of jobs/setup --dev
