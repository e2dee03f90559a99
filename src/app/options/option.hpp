// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/named_value.hpp"
#include "option_value.hpp"

namespace lockstep::app {

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

/// What changes if an option has another value.
enum class Affects {
  neither,
  results,  ///< what a run computes or measures except times, also by another rounding
  time,     ///< the times that a run measures
  both,
};
std::span<const core::NamedValue<Affects>> named_values(Affects);

/// The effect of an option. Two runs belong to one experiment if all options that have an effect
/// are equal. Each row of the table states the effect, so there is no default.
struct Effect {
  constexpr Effect(Affects what) : affects(what) {}

  Affects affects;
  bool needs_several_ranks = false;  ///< whether a run on one rank does not use the option
};
/// Returns the effect of an option that a run on one rank does not use.
constexpr Effect with_several_ranks(Affects affects) {
  Effect effect = affects;
  effect.needs_several_ranks = true;
  return effect;
}

/// A row of the option table: all that the program knows about an option. `--help`,
/// docs/options.md, the parsing of the command line, of environment variables and of files, the
/// attributes of the run file, the comparison between ranks, and what counts as the same experiment
/// in the report and on a resume follow from it.
struct Option {
  std::string_view name;         ///< without leading dashes
  std::string_view letter = {};  ///< short name; empty if there is none
  /// Placeholder of the value: that of the type if the row has none; empty for a flag.
  std::string_view value_name = {};
  OptionValue value;
  OptionGroup group{};    ///< set by the table
  unsigned commands = 0;  ///< the commands that use it (`CommandSet`); 0: those of its group
  unsigned common = 0;  ///< those of them whose `--help` shows it; `--help-all` shows every option
  bool may_differ = false;  ///< whether the ranks of a run may have different values
  Effect effect;
  std::string_view help;          ///< a phrase for `--help` and the documentation
  std::string_view details = {};  ///< further sentences of the documentation
  /// The default as shown to users, if it is not that of `Options`; an empty
  /// text if the option has no default.
  std::optional<std::string_view> shown_default = std::nullopt;
  /// Option that may not be given together with this one. An option overrides its alternative from
  /// a source of lower precedence.
  std::string_view alternative = {};

  /// Returns the name, with the letter if there is one, in the notation of Boost.Program_options.
  std::string names() const;
  /// Returns the default as text; empty if there is none.
  std::string default_text() const;
  /// Returns the description for `--help`: phrase, values, default.
  std::string description() const;
  /// Returns whether the run file contains the option.
  bool is_recorded() const { return value.print != nullptr; }
};

}  // namespace lockstep::app
