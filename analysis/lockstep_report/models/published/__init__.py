"""Checks published tables against the epoch times that they contain. The rest of the package does
not depend on these modules, except for the commands that call them."""
