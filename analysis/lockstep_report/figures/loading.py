# SPDX-License-Identifier: BSD-3-Clause
"""Imports the modules of figures so that these do not depend on the settings of the user: neither on a file
matplotlibrc, nor on MPLBACKEND, nor on a home directory."""

import atexit
import importlib
import logging
import os
import shutil
import tempfile
from pathlib import Path

from lockstep_report.errors import OUTPUT, ReportError, reason_of, require


def figure_module(name):
    """Returns the module `name` of this package. Raises `ReportError` (usage) if Matplotlib is not installed, or
    (output) if it finds no folder that can be written for its cache of fonts."""
    os.environ["MPLBACKEND"] = "Agg"
    os.environ["MATPLOTLIBRC"] = os.devnull
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        give_folder_without_home()
        require("matplotlib", "drawing figures")
        return importlib.import_module(f"lockstep_report.figures.{name}")
    except OSError as error:
        raise ReportError(OUTPUT, f"Matplotlib needs a folder for its cache of fonts ({reason_of(error)}); "
                                  "set MPLCONFIGDIR to a folder that can be written") from error


def give_folder_without_home():
    """Sets MPLCONFIGDIR to a temporary folder if the user has no home directory. If there is one that cannot
    be written, Matplotlib creates such a folder itself."""
    try:
        Path.home()
    except RuntimeError:
        if not os.environ.get("MPLCONFIGDIR"):
            os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="lockstep-report-")
            atexit.register(shutil.rmtree, os.environ["MPLCONFIGDIR"], ignore_errors=True)
