// SPDX-License-Identifier: BSD-3-Clause
// Options of checkpoints and output, and options of single commands.

#include "output_options.hpp"

#include "command_set.hpp"

#include <fmt/ranges.h>

#include "lockstep/graph/layer.hpp"

namespace lockstep::app {

using train::Config;

std::vector<Option> checkpoint_options() {
  return {
      {.name = "checkpoint-dir",
       .value_name = "DIR",
       .value = path(training(&Config::checkpoint, &train::CheckpointOptions::directory)),
       .common = cmd_train,
       .may_differ = true,  // only rank 0 reads and writes checkpoints
       .effect = Affects::neither,
       .help = "directory for checkpoints",
       .shown_default = "none are written"},
      {.name = "trust-checkpoint-dir",
       .value = flag(training(&Config::checkpoint, &train::CheckpointOptions::trust_directory)),
       .may_differ = true,
       .effect = Affects::neither,
       .help = "use the directory of checkpoints even if other users can write to it",
       .details = "See [security](reliability.md#security-on-a-shared-machine)"},
      {.name = "checkpoint-every",
       .value_name = "WHEN",
       .value = checkpoint_interval(),
       .effect = Affects::time,
       .help = "interval between checkpoints, for example 180s, 10min or 200-steps",
       .details = "The training continues while a checkpoint is written"},
      {.name = "keep",
       .value =
           integer(training(&Config::checkpoint, &train::CheckpointOptions::keep), from_to(1, 1e6)),
       .effect = Affects::neither,
       .help = "newest valid checkpoints that are kept",
       .details = "Damaged files and those of other runs are never deleted"},
      {.name = "grace",
       .value_name = "SECONDS",
       .value = real(training(&Config::checkpoint, &train::CheckpointOptions::grace_seconds),
                     from_to(0, limits::seconds)),
       .effect = Affects::neither,
       .help = "time between a signal that stops the run and SIGKILL",
       .details = "A save that is expected to take longer is not begun "
                  "([signals](reliability.md#signals))"},
      {.name = "resume",
       .value_name = "WHAT",
       .value = path(training(&Config::checkpoint, &train::CheckpointOptions::resume)),
       .common = cmd_train,
       .may_differ = true,
       .effect = Affects::neither,
       .help = "none; auto: the newest valid checkpoint of the directory, or a new run; "
               "or a file"},
  };
}

std::vector<Option> output_options() {
  return {
      {.name = "output",
       .value = path(in(&Options::output, &OutputOptions::run_file)),
       .commands = cmd_training | cmd_allreduce | cmd_layer,
       .common = cmd_all & ~cmd_plan,
       .may_differ = true,
       .effect = Affects::neither,
       .help = "name of the run file",
       .details = "[Contents](run-file.md)",
       .shown_default = "none is written"},
      {.name = "overwrite",
       .value = flag(in(&Options::output, &OutputOptions::overwrite)),
       .commands = cmd_training | cmd_allreduce | cmd_layer,
       .common = cmd_all & ~cmd_plan,
       .effect = Affects::neither,
       .help = "replace an existing run file or trace",
       .details = "Files of other kinds are never replaced"},
      {.name = "telemetry",
       .value_name = "HZ",
       .value = real(training(&Config::telemetry_hertz), from_to(0, 100)),
       .commands = cmd_run,
       .effect = Affects::time,
       .help = "samples per second of processor, memory, network, GPU and energy "
               "counters on each rank; 0 disables sampling",
       .details = "The interval doubles after each 4,096 samples, up to one minute"},
      {.name = "profile",
       .value_name = "STEPS",
       .value = integer(in(&Options::profile, &study::ProfileOptions::steps), from_to(0, 1000)),
       .commands = cmd_run,
       .effect = Affects::time,
       .help = "steps after the training in which the time of each operation is measured",
       .details = "As many steps without measurement show what it costs",
       .shown_default = "none"},
      {.name = "trace",
       .value = path(in(&Options::profile, &study::ProfileOptions::trace)),
       .commands = cmd_run,
       .may_differ = true,
       .effect = Affects::neither,
       .help = "file for a trace of the profiled steps, for Perfetto and "
               "chrome://tracing",
       .shown_default = "none is written"},
      {.name = "config",
       .value = option_file(),
       .effect = Affects::neither,
       .help = "file with lines such as: batch-per-rank = 32",
       .shown_default = "none"},
      {.name = "json",
       .value = flag(in(&Options::output, &OutputOptions::json)),
       .common = cmd_all & ~cmd_training,
       .may_differ = true,
       .effect = Affects::neither,
       .help = "print one JSON object to standard output and nothing else"},
      {.name = "quiet",
       .value = flag(in(&Options::output, &OutputOptions::quiet)),
       .may_differ = true,
       .effect = Affects::neither,
       .help = "print only warnings and errors"},
      {.name = "dry-run",
       .value = flag(in(&Options::output, &OutputOptions::is_dry_run)),
       .commands = cmd_all & ~cmd_info,
       .effect = Affects::neither,
       .help = "check everything, print what would be done, and stop"},
  };
}

std::vector<Option> single_command_options() {
  static const std::string layer_details =
      fmt::format("Layers are `{}`, joined by `+`", fmt::join(graph::layer_forms(), "`, `"));
  return {
      {.name = "measure",
       .value = flag(&Options::measures_roofline),
       .commands = cmd_plan,
       .effect = Affects::time,
       .help = "run some steps and compare the time of each operation with a lower bound"},
      {.name = "for",
       .value_name = "GPU",
       .value = text(training(&Config::device, &backend::DeviceOptions::target_gpu)),
       .commands = cmd_plan,
       .effect = Affects::both,
       .help = "GPU to plan for, which need not be present: a100, h100, h200, l40s, "
               "b200 or rtx8000",
       .shown_default = ""},
      {.name = "layer",
       .value_name = "LIST",
       .value = text(in(&Options::layers, &study::LayerOptions::list)),
       .commands = cmd_layer,
       .effect = Affects::both,
       .help = "layers, for example conv:3-128,k3,s1,p1@256x224x224+linear:25088-4096@256",
       .details = layer_details,
       .shown_default = ""},
      {.name = "ladder-start",
       .value_name = "B",
       .value =
           integer(in(&Options::ladder, &study::LadderOptions::start), from_to(1, limits::images)),
       .commands = cmd_ladder,
       .effect = Affects::time,
       .help = "first batch per rank; each next batch is four times as large"},
      {.name = "min-bytes",
       .letter = "b",
       .value_name = "BYTES",
       .value = bytes(in(&Options::sweep, &comm::SweepOptions::min_bytes),
                      from_to(sizeof(float), limits::bytes)),
       .commands = cmd_allreduce,
       .effect = Affects::time,
       .help = "smallest message",
       .shown_default = "1K"},
      {.name = "max-bytes",
       .letter = "e",
       .value_name = "BYTES",
       .value = bytes(in(&Options::sweep, &comm::SweepOptions::max_bytes),
                      from_to(sizeof(float), limits::bytes)),
       .commands = cmd_allreduce,
       .effect = Affects::time,
       .help = "largest message",
       .shown_default = "64M"},
      {.name = "step-factor",
       .letter = "f",
       .value_name = "F",
       .value = integer(in(&Options::sweep, &comm::SweepOptions::factor), from_to(2, 1024)),
       .commands = cmd_allreduce,
       .effect = Affects::time,
       .help = "each message is F times as large as the previous one"},
      {.name = "repeats",
       .letter = "n",
       .value = integer(in(&Options::sweep, &comm::SweepOptions::repeats), from_to(1, 1e6)),
       .commands = cmd_allreduce,
       .effect = Affects::time,
       .help = "timed repeats of each size"},
  };
}

}  // namespace lockstep::app
