// Options of checkpoints and output, and options of single commands.

#include <fmt/ranges.h>

#include "limits.hpp"
#include "lockstep/graph/layer.hpp"
#include "option_rows.hpp"

namespace lockstep::app {

using train::Config;

std::vector<Option> checkpoint_options() {
  return {
      {.name = "checkpoint-dir",
       .value_name = "DIR",
       .value = path(in(&Config::checkpoint, &train::CheckpointOptions::directory)),
       .commands = cmd_run,
       .common = cmd_train,
       .ranks = AcrossRanks::may_differ,  // only rank 0 reads and writes checkpoints
       .effect = Affects::neither,
       .help = "directory for checkpoints",
       .shown_default = "none are written"},
      {.name = "trust-checkpoint-dir",
       .value = flag(in(&Config::checkpoint, &train::CheckpointOptions::trust_directory)),
       .commands = cmd_run,
       .ranks = AcrossRanks::may_differ,
       .effect = Affects::neither,
       .help = "use the directory of checkpoints even if other users can write to it",
       .details = "By default, a directory to which a group can write or that another user owns "
                  "causes a warning, and one to which all users can write is refused "
                  "([reliability.md](reliability.md#security-on-a-shared-machine))"},
      {.name = "checkpoint-every",
       .value_name = "WHEN",
       .value = checkpoint_interval(),
       .commands = cmd_run,
       .effect = Affects::time,
       .help = "interval between checkpoints, for example 180s, 10min or 200-steps",
       .details = "The training continues while a checkpoint is written; if the next one is due "
                  "before that, the training waits. Steps that a GPU has already started are "
                  "completed first"},
      {.name = "keep",
       .value_name = "N",
       .value = integer(in(&Config::checkpoint, &train::CheckpointOptions::keep), from_to(1, 1e6)),
       .commands = cmd_run,
       .effect = Affects::neither,
       .help = "number of newest valid checkpoints of the run that are kept",
       .details = "Damaged files and those of other runs do not count and are never deleted"},
      {.name = "grace",
       .value_name = "SECONDS",
       .value = real(in(&Config::checkpoint, &train::CheckpointOptions::grace_seconds),
                     from_to(0, limits::seconds)),
       .commands = cmd_run,
       .effect = Affects::neither,
       .help = "time between a signal that stops the run and the end of the process by its sender",
       .details = "A save that is expected to take longer is not begun, and the last checkpoint is "
                  "kept ([reliability.md](reliability.md#signals)). The default is `KillWait` of "
                  "Slurm"},
      {.name = "resume",
       .value_name = "WHAT",
       .value = path(in(&Config::checkpoint, &train::CheckpointOptions::resume)),
       .commands = cmd_run,
       .common = cmd_train,
       .ranks = AcrossRanks::may_differ,
       .effect = Affects::neither,
       .help = "none; auto: the newest valid checkpoint of the directory, if any; or a file",
       .details =
           "If `auto` finds no checkpoint, a new run starts. After a resume from an older file, "
           "the checkpoints written after that file count as older than the new ones "
           "([run-file.md](run-file.md))"},
  };
}

std::vector<Option> output_options() {
  return {
      {.name = "output",
       .value_name = "FILE",
       .value = path(&Config::output),
       .commands = cmd_training | cmd_allreduce | cmd_layer,
       .common = cmd_all & ~cmd_plan,
       .ranks = AcrossRanks::may_differ,
       .effect = Affects::neither,
       .help = "name of the run file (HDF5)",
       .details = "[run-file.md](run-file.md) describes its contents",
       .shown_default = "none is written"},
      {.name = "overwrite",
       .value = flag(&Config::overwrite),
       .commands = cmd_training | cmd_allreduce | cmd_layer,
       .common = cmd_all & ~cmd_plan,
       .effect = Affects::neither,
       .help = "replace an existing run file or trace",
       .details = "A file of another kind is never replaced"},
      {.name = "telemetry",
       .value_name = "HZ",
       .value = real(&Config::telemetry_hertz, from_to(0, 100)),
       .commands = cmd_run,
       .effect = Affects::time,
       .help = "samples per second of processor, memory, network, GPU and energy counters on each "
               "rank; 0 disables sampling",
       .details = "The samples are in the group `/telemetry` of the run file. After each 4,096 "
                  "samples the interval doubles, up to one minute"},
      {.name = "profile",
       .value_name = "STEPS",
       .value = integer(&Config::profile_steps, from_to(0, 1000)),
       .commands = cmd_run,
       .effect = Affects::time,
       .help = "number of steps after the training in which the time of each operation is measured",
       .details = "The results of these steps are not used. As many steps without measurement are "
                  "executed in turn with them and show what it costs",
       .shown_default = "none"},
      {.name = "trace",
       .value_name = "FILE",
       .value = path(&Config::trace),
       .commands = cmd_run,
       .ranks = AcrossRanks::may_differ,
       .effect = Affects::neither,
       .help = "file for a trace of the profiled steps (`--profile`), in the trace-event format of "
               "Perfetto and chrome://tracing",
       .shown_default = "none is written"},
      {.name = "config",
       .value_name = "FILE",
       .value = option_file(),
       .effect = Affects::neither,
       .help = "file from which options are read, in lines such as: batch-per-rank = 32",
       .shown_default = "none"},
      {.name = "json",
       .value = flag(&Config::json),
       .common = cmd_all & ~cmd_training,
       .ranks = AcrossRanks::may_differ,
       .effect = Affects::neither,
       .help = "print one JSON object with the results to standard output and nothing else"},
      {.name = "quiet",
       .value = flag(&Config::quiet),
       .ranks = AcrossRanks::may_differ,
       .effect = Affects::neither,
       .help = "print only warnings and errors"},
      {.name = "dry-run",
       .value = flag(&Config::dry_run),
       .commands = cmd_all & ~cmd_info,
       .effect = Affects::neither,
       .help = "check everything, print what would be done, and stop"},
  };
}

std::vector<Option> single_command_options() {
  static const std::string layer_details = fmt::format(
      "The notation is `{}`, joined by `+`. By default `lockstep layers` measures ReLU, max-pool, "
      "a convolution and a linear layer of common sizes, and `lockstep stack` stacks "
      "`conv:64-64,k3,p1@16x112x112` and `linear:4096-4096@16`",
      fmt::join(graph::layer_forms(), "`, `"));
  return {
      {.name = "measure",
       .value = flag(&Config::measure),
       .commands = cmd_plan,
       .effect = Affects::time,
       .help = "run some steps and compare the time of each operation with a lower bound",
       .details = "The images are random. The bound follows from the measured rates of matrix "
                  "products and memory copies"},
      {.name = "for",
       .value_name = "GPU",
       .value = text(in(&Config::device, &backend::DeviceOptions::target_gpu)),
       .commands = cmd_plan,
       .effect = Affects::both,
       .help = "target GPU, which need not be in this machine: a100, h100, h200, l40s, b200 or "
               "rtx8000",
       .details = "Kernels, workspace and memory are planned for this GPU",
       .shown_default = ""},
      {.name = "write-device-description",
       .value_name = "FILE",
       .value = path(&Config::device_description),
       .commands = cmd_info,
       .effect = Affects::neither,
       .help = "write the GPU's description to FILE, for planning on machines without this GPU",
       .shown_default = ""},
      {.name = "layer",
       .value_name = "LIST",
       .value = text(&Config::layers),
       .commands = cmd_layer,
       .effect = Affects::both,
       .help = "layers, for example conv:3-128,k3,s1,p1@256x224x224+linear:25088-4096@256",
       .details = layer_details,
       .shown_default = ""},
      {.name = "ladder-start",
       .value_name = "B",
       .value = integer(&Config::ladder_start, from_to(1, limits::images)),
       .commands = cmd_ladder,
       .effect = Affects::time,
       .help = "first batch per rank; each next batch is four times as large"},
      {.name = "min-bytes",
       .letter = "b",
       .value_name = "BYTES",
       .value = bytes(&Config::min_bytes, from_to(sizeof(float), limits::bytes)),
       .commands = cmd_allreduce,
       .effect = Affects::time,
       .help = "smallest message",
       .shown_default = "1K"},
      {.name = "max-bytes",
       .letter = "e",
       .value_name = "BYTES",
       .value = bytes(&Config::max_bytes, from_to(sizeof(float), limits::bytes)),
       .commands = cmd_allreduce,
       .effect = Affects::time,
       .help = "largest message",
       .shown_default = "64M"},
      {.name = "step-factor",
       .letter = "f",
       .value_name = "F",
       .value = integer(&Config::step_factor, from_to(2, 1024)),
       .commands = cmd_allreduce,
       .effect = Affects::time,
       .help = "each message is F times as large as the previous one"},
      {.name = "repeats",
       .letter = "n",
       .value_name = "N",
       .value = integer(&Config::repeats, from_to(1, 1e6)),
       .commands = cmd_allreduce,
       .effect = Affects::time,
       .help = "number of timed repeats of each size"},
  };
}

}  // namespace lockstep::app
