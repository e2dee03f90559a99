# SPDX-License-Identifier: BSD-3-Clause
"""Lets setuptools write its intermediate files to a temporary folder instead of next to the
sources."""

import tempfile

from setuptools import setup

with tempfile.TemporaryDirectory() as folder:
    setup(options={"egg_info": {"egg_base": folder}, "build": {"build_base": folder}})
