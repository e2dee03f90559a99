# SPDX-License-Identifier: BSD-3-Clause
"""Imports the modules of figures so that these do not depend on the settings of the user: neither on a file
matplotlibrc nor on MPLBACKEND."""

import importlib
import logging
import os

from lockstep_report.errors import OUTPUT, ReportError, reason_of, require


def figure_module(name):
    """Returns the module `name` of this package. Raises `ReportError` (usage) if Matplotlib is not installed, or
    (output) if it finds no folder that can be written for its cache of fonts."""
    os.environ["MPLBACKEND"] = "Agg"
    os.environ["MATPLOTLIBRC"] = os.devnull
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        require("matplotlib", "drawing figures")
        return importlib.import_module(f"lockstep_report.figures.{name}")
    except (OSError, RuntimeError) as error:  # the user has no home directory
        raise ReportError(OUTPUT, f"Matplotlib needs a folder for its cache of fonts ({reason_of(error)}); "
                                  "set MPLCONFIGDIR to a folder that can be written") from error
