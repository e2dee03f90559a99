"""Compares two sets of run files, or run files with a stored reference."""
