# SPDX-License-Identifier: BSD-3-Clause
"""Records the training of a PyTorch program in a run file, as Lockstep does (docs/pytorch.md)."""

from lockstep_recorder.recorder import Recorder

__all__ = ["Recorder"]
