# SPDX-License-Identifier: BSD-3-Clause
"""Studies: tables of runs of lockstep, which this package reads, checks, estimates, runs on this
machine or submits to a batch system. It uses only the standard library, so that it runs on login
nodes. README.md describes its modules."""
