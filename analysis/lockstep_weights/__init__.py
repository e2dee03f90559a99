# SPDX-License-Identifier: BSD-3-Clause
"""Converts the weights of PyTorch into files that `lockstep --init-from` reads, and checkpoints of
Lockstep into files that PyTorch loads (docs/pytorch.md).

A state is a dictionary {name: array}: the tensors of a network, as in PyTorch's `state_dict`.
"""
