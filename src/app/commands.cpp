// SPDX-License-Identifier: BSD-3-Clause
#include "commands.hpp"

#include <algorithm>
#include <array>

#include "lockstep/core/error.hpp"

namespace lockstep::app {

namespace {

constexpr std::array<Command, 8> all_commands{{
    {cmd_train, train_command, "trains a network and times every phase of every step",
     R"(
Trains with synchronous data-parallel SGD, one MPI rank per device, and records how each rank spends
its time.

  lockstep train --batch-per-rank 32 --steps 20
      one rank on synthetic images: works without any data
  mpirun -n 2 lockstep train --data cifar10:DIR --batch-per-rank 128 --epochs 5 --output run.h5
      two ranks on CIFAR-10; lockstep-report makes tables and figures of run.h5
  mpirun -n 2 lockstep train --global-batch 128 --checkpoint-dir ckpt --resume auto --output run.h5
      resumes from the newest checkpoint, if there is one
)"},
    {cmd_evaluate, evaluate_command, "computes the test accuracy of the weights in a file",
     R"(
Computes loss and accuracy on the test images with the weights of a checkpoint, or of an HDF5 file
with tensors under /state that are named as in PyTorch. Each image counts once for any number of
ranks.

  lockstep evaluate --init-from ckpt/checkpoint-780.h5 --data cifar10:DIR
)"},
    {cmd_ladder, ladder_command, "epoch time at batch 32, 128, 512, ... until memory is full",
     R"(
Times an epoch at a batch of 32 images per rank, then four times as many, and so on until memory is
full. Running out of memory is the expected end and a row of the table, not an error. Each point
trains two epochs and reports the second. With --steps S it times S steps after a first one, scales
them to an epoch and marks the row.

  lockstep ladder --memory-limit 4GB --steps 2
      a short ladder: two timed steps per point
  lockstep ladder --data cifar10:DIR --output ladder.h5
)"},
    {cmd_allreduce, allreduce_command, "times all-reduces over all ranks, by message size",
     R"(
Times all-reduces of arrays of growing size in the memory of the devices, and checks every element
of the sums. Between CPUs it times every algorithm of `lockstep train --all-reduce` and
MPI_Allreduce ("mpi-blocking"); between GPUs NCCL, or MPI through host memory (--transport). The
columns are those of nccl-tests, then the times of the shortest and the longest repeat, and with
--link-gbit the share of the link's rate that is used. -b, -e, -f and -n are options of nccl-tests.

  mpirun -n 2 lockstep allreduce -b 1K -e 64M -f 4 -n 20
  mpirun -n 2 lockstep allreduce --device cuda --gradient-dtype bf16
)"},
    {cmd_plan, plan_command, "estimates memory, work and communication of a training run",
     R"(
Estimates what a run of `lockstep train` with these options needs: memory by purpose, floating-point
operations and bytes communicated. The total is the estimated peak of the resident memory of one
rank, without the buffers of the MPI library for messages: 0 to 30 MB on hosts with up to 8 ranks.
With --measure it runs a few steps of one rank and compares the time of each operation with a lower
bound, which follows from the measured rates of matrix products and memory copies.

  mpirun -n 2 lockstep plan --batch-per-rank 128
  lockstep plan --for h200 --precision bf16 --batch-per-rank 512
      kernels and memory on a GPU that is not in this machine; needs a build with CUDA
)"},
    {cmd_layers, layers_command,
     "measures single layers: time, memory, share of the peak rates, energy",
     R"(
Measures the forward and the backward pass of single layers on one device, and compares their rates
with the measured rates of a matrix product and a memory copy. A layer is one of

LAYER-FORMS

with N images, C channels, H x W pixels, kernel size K, stride S [conv: 1, maxpool: K] and padding
P [0]; several layers are joined by '+'. A layer that does not fit in the memory is a row of the
table, not an error.

  lockstep layers --layer conv:3-128,k3,s1,p1@16x224x224+relu@16x3x224x224 --output layers.h5
)"},
    {cmd_stack, stack_command,
     "finds the deepest stack of equal layers that one or several devices hold",
     R"(
Finds the largest number of equal layers in a row whose training fits in the memory of one device:
by an estimate from shapes, which is then confirmed by running the deepest stack that fits and the
next one, under the memory limit. The notation of --layer is that of `lockstep layers --help`; each
layer must keep the shape of its input. At most 10,000 layers per device are tried. With N ranks,
the stack is divided over N devices as the stages of a pipeline; --memory-limit is that of each
rank.

  lockstep stack --memory-limit 2G
  mpirun -n 2 lockstep stack --layer conv:64-64,k3,p1@16x112x112 --output stack.h5
)"},
    {cmd_info, info_command, "prints versions, devices, processors and limits",
     R"(
Prints the versions and devices of this build and machine, the processors of each rank, and what
rank 0 has read about its environment: launcher, processors, threads and limits, each with its
source.

  mpirun -n 2 lockstep info
)"},
}};

}  // namespace

std::span<const Command> commands() { return all_commands; }

const Command& find_command(std::string_view name) {
  const auto found = std::ranges::find(all_commands, name, &Command::name);
  core::check(found != all_commands.end(), "a command has a function and a help");
  return *found;
}

}  // namespace lockstep::app
