# SPDX-License-Identifier: BSD-3-Clause
"""The width for which figures are drawn: the screen, where a figure is as wide as its content
needs, or one or two columns of a paper; and the import of the modules that draw them, which need
Matplotlib.
"""

import atexit
import importlib
import logging
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lockstep_report.errors import OUTPUT, ReportError, reason_of, require_module

SMALLEST_TEXT = 6.0  # points; smaller text is not readable on paper


@dataclass(frozen=True)
class Canvas:
    """`width`: of every figure, in inches; None: as wide as the content needs."""

    name: str
    width: float
    text: float  # size of most texts, points
    row: float  # width of the bars in one row of panels, inches
    dpi: int
    has_notes: bool = True  # below a figure, about the validity of its points
    # Of figures beside each other, inches, with a legend of usual size and not more than twice as
    # much content; None: what the content needs.
    height: float = None


SCREEN = Canvas("screen", None, 10, 11.0, 160)
ONE_COLUMN = Canvas("one-column", 3.35, 7, 2.7, 300)  # 85 mm
TWO_COLUMN = Canvas("two-column", 7.0, 7, 6.3, 300)  # 178 mm
# The HTML page; its tables have the notes.
PAGE = replace(ONE_COLUMN, name="page", has_notes=False, height=6.0)
CANVASES = {c.name: c for c in (SCREEN, ONE_COLUMN, TWO_COLUMN)}

_current = [SCREEN]


def current():
    return _current[-1]


@contextmanager
def canvas(name):
    """Draws figures for the canvas `name`, in its style, inside the context."""
    style = figure_module("style")
    _current.append(PAGE if name == PAGE.name else CANVASES[name])
    try:
        with style.mpl.rc_context(style.rc_settings()):
            yield
    finally:
        _current.pop()


def text_size(size=10):
    """Returns the size of a text that has `size` points on the screen."""
    return max(SMALLEST_TEXT, length(size))


def length(inches):
    """Returns a length that depends on the size of the text; `inches`: that on the screen."""
    return inches * current().text / SCREEN.text


def figure_module(name):
    """Returns the module `name` of this package, without the settings of the user (matplotlibrc,
    MPLBACKEND, home directory). Raises `ReportError` (usage) if Matplotlib is not installed, or
    (output) if it has no folder for its cache of fonts."""
    os.environ["MPLBACKEND"] = "Agg"
    os.environ["MATPLOTLIBRC"] = os.devnull
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        give_folder_without_home()
        require_module("matplotlib", "drawing figures")
        return importlib.import_module(f"lockstep_report.figures.{name}")
    except OSError as error:
        raise ReportError(
            OUTPUT,
            f"Matplotlib needs a folder for its cache of fonts ({reason_of(error)}); "
            "set MPLCONFIGDIR to a folder that can be written",
        ) from error


def give_folder_without_home():
    """Sets MPLCONFIGDIR to a temporary folder if the user has no home directory. If there is one
    that cannot be written, Matplotlib creates such a folder itself."""
    try:
        Path.home()
    except RuntimeError:
        if not os.environ.get("MPLCONFIGDIR"):
            os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="lockstep-report-")
            atexit.register(shutil.rmtree, os.environ["MPLCONFIGDIR"], ignore_errors=True)
