# SPDX-License-Identifier: BSD-3-Clause
"""Records the training of a PyTorch program in a run file, as Lockstep does (docs/pytorch.md). Only
`Recorder` needs PyTorch."""


def __getattr__(name):
    if name != "Recorder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lockstep_recorder.recorder import Recorder

    return Recorder
