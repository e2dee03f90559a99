"""Checks published values against the epoch times that they belong to."""
