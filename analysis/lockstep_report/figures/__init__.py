# SPDX-License-Identifier: BSD-3-Clause
"""The figures of reports, for the screen, a paper and the HTML page: one module per figure, and the
common layout and style. Only these modules need Matplotlib; `canvas` imports them. The values are
those of `measure` and `models`.
"""
