# SPDX-License-Identifier: BSD-3-Clause
"""The HTML page of a report: its text, sections, tables and figures as elements. Nothing here
computes or draws: tables and figures are those of the other packages."""
