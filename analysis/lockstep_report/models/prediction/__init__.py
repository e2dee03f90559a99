# SPDX-License-Identifier: BSD-3-Clause
"""Prediction of the step time on other numbers of ranks; its output is labelled "predicted"."""
