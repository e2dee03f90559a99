"""Tables and figures from Lockstep run files. The formulas are in docs/analysis.md."""

__version__ = "0.1.0"
