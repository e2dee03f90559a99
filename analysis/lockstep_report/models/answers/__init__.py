# SPDX-License-Identifier: BSD-3-Clause
"""The answers to the questions of a report on data-parallel training, computed from points and
runs. The console, the page, `explain` and the JSON render these answers and no others. Each kind of
answer has a function that returns one answer per case that the runs measure, in the file of its
subject; docs/report-reference.md lists the questions."""
