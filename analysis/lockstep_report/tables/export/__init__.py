"""Exports run files to the formats of other programs."""
