"""Tables and figures from the run files of Lockstep. Formulas: docs/analysis.md."""

__version__ = "0.1.0"
