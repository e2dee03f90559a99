"""Libraries that only some commands need."""

import importlib

from lockstep_report.errors import USAGE, ReportError


def require(name, what):
    """Returns the module `name`. Raises `ReportError` if it is not installed; `what` needs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ReportError(USAGE, f"{what} needs {name}: install python3-{name} (Debian) or "
                                 f"pip install {name}") from error
