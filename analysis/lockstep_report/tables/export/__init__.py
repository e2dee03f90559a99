# SPDX-License-Identifier: BSD-3-Clause
"""Exports run files to the formats of other programs."""
