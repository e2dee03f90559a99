# SPDX-License-Identifier: BSD-3-Clause
"""Checks published values against the epoch times that they belong to."""
