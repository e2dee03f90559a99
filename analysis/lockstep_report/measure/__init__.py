# SPDX-License-Identifier: BSD-3-Clause
"""The measured values of runs: the timed window, points, statistics, waiting, and which values may
be compared. docs/analysis.md states the formulas. No model, no table and no text of a report,
except notes about a value.
"""
