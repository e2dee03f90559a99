# SPDX-License-Identifier: BSD-3-Clause
"""The comparison of two sets of runs."""
