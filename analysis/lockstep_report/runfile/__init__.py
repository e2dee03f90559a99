# SPDX-License-Identifier: BSD-3-Clause
"""Input files: finding, checking and reading run files, joining the parts of a run, the schema, CSV
files of epoch times, and what makes two runs the same experiment. Nothing here computes a value of
a report.
"""
