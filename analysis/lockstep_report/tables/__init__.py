# SPDX-License-Identifier: BSD-3-Clause
"""The tables of all commands, the structure in which they are written, and the formats of values:
Markdown, CSV, LaTeX, JSON, and those of other programs (`export`). A table computes nothing that a
figure needs as well.
"""
