# SPDX-License-Identifier: BSD-3-Clause
"""Converts images into the HDF5 file that `lockstep --data hdf5:FILE` reads. docs/options.md
describes its layout."""
