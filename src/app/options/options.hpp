// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/named_value.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/study/options.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::app {

/// Processors on which the ranks of a host compute.
enum class Binding {
  automatic,  ///< ranks to which the launcher has given the same processors are bound to parts
  none,       ///< the ranks keep the processors that the launcher has given them
};
std::span<const core::NamedValue<Binding>> named_values(Binding);

/// Options of the process of a rank.
struct ProcessOptions {
  Binding binding = Binding::automatic;
  std::uint64_t memory_limit = 0;       ///< bytes per rank; 0: the available memory
  std::int64_t watchdog_seconds = 300;  ///< 0: disabled
};

/// Options of what the program prints and writes.
struct OutputOptions {
  std::string run_file;     ///< empty: none
  bool overwrite = false;   ///< replaces an existing run file or trace
  double link_gbit = 0;     ///< rate of the network link in Gbit/s, for the report; 0: unknown
  bool json = false;        ///< prints one JSON object and nothing else
  bool quiet = false;       ///< prints only warnings and errors
  bool is_dry_run = false;  ///< checks everything, and stops before the first step
};

/// Values of all options, by subject. The option table reads and sets them, `resolve` checks them,
/// and the run file stores them. Commands pass to `train` and `study` the options of the subject
/// alone.
struct Options {
  std::string command = "train";
  train::Config training;
  graph::NetworkOptions network;
  study::LadderOptions ladder;
  study::ProfileOptions profile;
  study::LayerOptions layers;
  bool measures_roofline = false;  ///< plan: measures the operations
  comm::SweepOptions sweep;        ///< allreduce: sizes and repeats; the command sets the rest
  ProcessOptions process;
  OutputOptions output;
};

/// Returns `options` with the values that the options determine for `ranks` ranks: those of
/// `train::resolve`, and the default layers of the command. Throws `Error` (usage), naming the
/// options, if options contradict each other, the number of ranks or the command. The option table
/// checks the range of each value.
Options resolve(Options options, int ranks);

}  // namespace lockstep::app
