// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/layer.hpp"

namespace lockstep::app {

namespace {

constexpr std::string_view default_layers =
    "relu@256x3x224x224+maxpool:k2,s2@256x3x224x224+conv:3-128,k3,p1@256x224x224+"
    "linear:25088-4096@256";
constexpr std::string_view default_stacks = "conv:64-64,k3,p1@16x112x112+linear:4096-4096@16";

void require(bool condition, const std::string& message) {
  if (!condition) core::fail(core::ExitStatus::usage, message);
}

train::Purpose purpose_of(std::string_view command) {
  if (command == "train" || command == "plan") return train::Purpose::training;
  return command == "ladder" ? train::Purpose::several_trainings : train::Purpose::other;
}

void check_combinations(const Options& options) {
  require(options.profile.trace.empty() || options.profile.steps > 0,
          "--trace requires --profile STEPS, the number of steps of the trace");
  require(options.sweep.min_bytes <= options.sweep.max_bytes,
          "--min-bytes is larger than --max-bytes");
  require(options.command != "plan" || options.training.pipeline.stages == 1,
          "lockstep plan does not describe the stages of a pipeline; use lockstep train --dry-run "
          "with the same options");
}

/// Fills in the default layers of the commands that measure layers, and checks those given.
void resolve_layers(Options& options, int ranks) {
  const bool is_stack = options.command == "stack";
  if (!is_stack && options.command != "layers") return;
  require(is_stack || ranks == 1,
          fmt::format("lockstep layers measures one device, but {} ranks were started; start one",
                      ranks));
  std::string& list = options.layers.list;
  if (list.empty()) list = is_stack ? default_stacks : default_layers;
  for (const graph::Layer& layer : graph::parse_layers(list))
    graph::stack_layers(layer, is_stack ? 2 : 1);  // throws if it cannot be stacked
}

}  // namespace

std::span<const core::NamedValue<Binding>> named_values(Binding) {
  static constexpr std::array<core::NamedValue<Binding>, 2> values{
      {{Binding::automatic, "auto",
        "each on its part of the physical cores, if the launcher has not bound "
        "the ranks and OpenMP does not bind the threads"},
       {Binding::none, "none", "the processors of the launcher"}}};
  return values;
}

Options resolve(Options options, int ranks) {
  check_combinations(options);
  options.training.times_operations = options.profile.steps > 0;
  options.training.checkpoint.is_read_only = options.output.is_dry_run;
  options.training =
      train::resolve(std::move(options.training), ranks, purpose_of(options.command));
  resolve_layers(options, ranks);
  return options;
}

}  // namespace lockstep::app
