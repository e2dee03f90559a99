#include "help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "lockstep/record/provenance.hpp"

namespace lockstep::app {

namespace {

// The groups of the option table, in its order.
enum Group : unsigned {
  run = 1,
  network = 2,
  data = 4,
  optimiser = 8,
  communication = 16,
  device = 32,
  checkpoints = 64,
  output = 128,
  single = 256,
};

struct Command {
  std::string_view name, summary;
  unsigned groups;  ///< whose options it uses
  std::string_view details;
};

constexpr unsigned of_training = run | network | data | optimiser | communication | device | output;

constexpr std::array<Command, 6> commands{{
    {"train", "trains a network and times every phase of every step", of_training | checkpoints,
     R"(Trains with synchronous data-parallel SGD, one MPI rank per device, and writes down where every
rank's time went.

  lockstep train --batch-per-rank 32 --steps 20
      one rank on synthetic images: works without any data
  mpirun -n 2 lockstep train --data cifar10:DIR --batch-per-rank 128 --epochs 5 --output run.h5
      two ranks on CIFAR-10; lockstep-report makes tables and figures of run.h5
  mpirun -n 4 lockstep train --global-batch 128 --checkpoint-dir ckpt --resume auto --output run.h5
      goes on where an earlier run stopped, to the last bit
)"},
    {"evaluate", "scores the test images with the weights of a file",
     network | data | device | output,
     R"(Scores the test images with the weights of a checkpoint, or of any HDF5 file with PyTorch's names
under /state. Each image is scored once, whatever the number of ranks.

  lockstep evaluate --init-from ckpt/checkpoint-780.h5 --data cifar10:DIR
)"},
    {"ladder", "epoch time at batch 32, 128, 512, ... until memory is full", of_training | single,
     R"(Times an epoch at a batch of 32 images per rank, then four times as many, and so on until memory is
full. Running out of memory is the expected end and a row of the table, not an error. Each point
trains two epochs and reports the second; with --steps S, S steps after a first one, scaled to the
epoch and marked so.

  lockstep ladder --memory-limit 4GB --steps 2
      a quick look: two timed steps per point
  lockstep ladder --data cifar10:DIR --output ladder.h5
)"},
    {"allreduce", "times sums over all ranks, by message size",
     communication | device | output | single,
     R"(Times sums over all ranks of messages of growing size where the devices have them, and checks
every element: between CPUs in every way that training can use (--all-reduce) and by MPI_Allreduce
("mpi-blocking"), between GPUs by NCCL or staged through the hosts (--transport). Columns are those
of nccl-tests; with --link-gbit, also the share of the link's rate that the sum's bytes need.

  mpirun -n 4 lockstep allreduce --max-bytes 64M
  mpirun -n 4 lockstep allreduce --device cuda --gradient-dtype bf16
)"},
    {"plan", "says what a run would need, without running it", of_training | single,
     R"(Says what a run with these options would need: memory by purpose, floating-point operations, bytes
that travel. The total foretells the peak of the resident memory of one rank. With --measure it runs
a few steps of one rank and says, for each operation, the least time that the machine's measured
matrix product and copy allow, and the time taken.

  mpirun -n 2 lockstep plan --batch-per-rank 128
)"},
    {"info", "versions, devices and binding of this build and machine", device | output,
     R"(Says what this build has and what this machine offers.

  mpirun -n 2 lockstep info
)"},
}};

constexpr std::string_view epilogue =
    R"(Where options come from, first to last: the command line; environment variables such as
LOCKSTEP_BATCH_PER_RANK=32; the file of --config FILE (lines such as batch-per-rank = 32). Defaults
stand in [brackets].

Exit status: 0 done; 2 bad option, or ranks that differ; 3 bad input data; 4 out of memory; 5 loss not
finite; 6 output cannot be written; 70 internal error or watchdog; 75 stopped by a signal, run again.
)";

}  // namespace

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  return names;
}

bool is_command(std::string_view name) {
  return std::ranges::any_of(commands, [&](const Command& c) { return c.name == name; });
}

std::string version_text() { return record::build_id() + "\n"; }

std::string overview_text() {
  std::string text =
      "Lockstep trains networks with synchronous data-parallel SGD over MPI ranks, and records "
      "where\n"
      "the time goes.\n\n";
  for (const Command& command : commands) {
    text += fmt::format("  lockstep {:<10} {}\n", command.name, command.summary);
  }
  return text +
         "\nlockstep COMMAND --help lists the options with their defaults. A first run:\n\n"
         "  lockstep train --batch-per-rank 32 --steps 20\n";
}

std::string help_text(std::string_view command, const OptionTable& table) {
  const auto found =
      std::ranges::find_if(commands, [&](const Command& c) { return c.name == command; });
  std::ostringstream options;
  for (std::size_t group = 0; group < table.groups().size(); ++group) {
    if ((found->groups >> group & 1u) != 0) options << *table.groups()[group] << '\n';
  }
  return fmt::format("lockstep {} [options]: {}\n\n{}\n{}{}", found->name, found->summary,
                     found->details, options.str(), epilogue);
}

}  // namespace lockstep::app
