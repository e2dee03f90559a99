# SPDX-License-Identifier: BSD-3-Clause
"""The modules of this folder are imported by the tests in its folders; pytest finds them because of
this file."""
