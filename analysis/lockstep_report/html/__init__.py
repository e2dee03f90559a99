"""The command `lockstep-report html`: one self-contained page."""
