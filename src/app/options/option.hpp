#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/named_value.hpp"
#include "option_value.hpp"

namespace lockstep::app {

/// A set of commands as a bit mask.
enum CommandSet : unsigned {
  cmd_train = 1,
  cmd_evaluate = 2,
  cmd_ladder = 4,
  cmd_allreduce = 8,
  cmd_plan = 16,
  cmd_info = 32,
  cmd_layers = 64,
  cmd_stack = 128,
  cmd_all = 255,
  cmd_run = cmd_train | cmd_plan,  ///< `plan` describes a run, so it has all options of `train`
  cmd_training = cmd_run | cmd_ladder,
  cmd_layer = cmd_layers | cmd_stack,  ///< measurements of layers, without images
};

/// Sections of `--help` and of docs/options.md, in their order.
enum class OptionGroup {
  run,
  network,
  data,
  optimiser,
  communication,
  device,
  checkpoints,
  output,
  single_command,
};
/// The names are the titles of the sections.
std::span<const core::NamedValue<OptionGroup>> named_values(OptionGroup);

/// Whether the value of an option may differ between the ranks of a run.
enum class AcrossRanks { equal, may_differ };
std::span<const core::NamedValue<AcrossRanks>> named_values(AcrossRanks);

/// How an option affects the comparison of runs in the report.
enum class TimingEffect {
  none,           ///< it does not affect the time of a step
  setting,        ///< it is part of the setting: only runs of equal settings are compared
  point,          ///< it distinguishes the points of a setting, for example the batch
  step,           ///< it can affect the time of a step: repeats of a run have equal values
  communication,  ///< like `step` if there are several ranks; no effect on one rank
};
std::span<const core::NamedValue<TimingEffect>> named_values(TimingEffect);

/// A row of the option table: all that the program knows about an option. `--help`,
/// docs/options.md, the parsing of the command line, of environment variables and of files, the
/// attributes of the run file, the comparison between ranks and the grouping of runs in the report
/// follow from it.
struct Option {
  std::string_view name;             ///< without leading dashes
  std::string_view value_name = {};  ///< placeholder of the value; empty for a flag
  OptionValue value;
  OptionGroup group;
  unsigned commands = cmd_all;  ///< the commands that use it (`CommandSet`)
  AcrossRanks ranks = AcrossRanks::equal;
  TimingEffect timing = TimingEffect::none;
  /// Whether a resumed run may have another value without a warning, although the value affects the
  /// time of a step.
  bool may_change_on_resume = false;
  std::string_view help;          ///< a phrase for `--help` and the documentation
  std::string_view details = {};  ///< further sentences of the documentation
  /// The default as shown to users, if it is not the default value of the configuration; an empty
  /// text if the option has no default.
  std::optional<std::string_view> shown_default = std::nullopt;
  /// Option that may not be given together with this one. An option overrides its alternative from
  /// a source of lower precedence.
  std::string_view alternative = {};

  /// Returns the default as text; empty if there is none.
  std::string default_text() const;
  /// Returns whether the run file contains the option.
  bool is_recorded() const { return value.print != nullptr; }
};

}  // namespace lockstep::app
