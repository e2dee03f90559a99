// SPDX-License-Identifier: BSD-3-Clause
#include "fault_injection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::campaign {

using namespace std::chrono_literals;

std::span<const core::NamedValue<FaultKind>> named_values(FaultKind) {
  using enum FaultKind;
  static constexpr std::array<core::NamedValue<FaultKind>, 13> values{
      {{kill, "kill", "SIGKILL"},
       {segv, "segv", "SIGSEGV"},
       {abort, "abort", "abort()"},
       {exit, "exit", "exit(0) without MPI_Finalize"},
       {stop, "stop", "SIGSTOP"},
       {stall, "stall", "the main thread blocks for good"},
       {finish, "finish", "MPI_Finalize while the other ranks continue"},
       {slow, "slow", "a delay of 0.3 s in this and each later step, which must not end the run"},
       {throw_exception, "throw", "an exception"},
       {oom, "oom", "std::bad_alloc"},
       {skip, "skip",
        "the rank skips the collective operation that combines the results of a step"},
       {flip, "flip", "one bit of one parameter changes before the step"},
       {nan, "nan", "one parameter becomes NaN before the step"}}};
  return values;
}

namespace {

constexpr auto delay = 300ms;  ///< of a slow rank, at the beginning of each selected phase

[[noreturn]] void fail(std::string_view text, const std::string& reason) {
  core::fail(core::ExitStatus::usage,
             fmt::format("--inject {}: {}; the notation is KIND:RANK:STEP[:PHASE]", text, reason));
}

/// Parses a number that is not negative.
template <class T>
T parse_number(std::string_view text, std::string_view part, std::string_view what) {
  T value = -1;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc{} || end != part.data() + part.size() || value < 0)
    fail(text, fmt::format("'{}' is not a {}", part, what));
  return value;
}

/// Returns the phase of a kind that has a single one; empty for the other kinds. The parameters are
/// damaged before the step.
std::string_view only_phase(FaultKind kind) {
  if (kind == FaultKind::skip) return "results";
  return kind == FaultKind::flip || kind == FaultKind::nan ? "data_wait" : "";
}

/// Returns the text of which `parse_faults` makes this fault.
std::string to_text(const Fault& fault) {
  const std::string phase = only_phase(fault.kind).empty() ? ":" + fault.phase : "";
  return fmt::format("{}:{}:{}{}", core::name(fault.kind), fault.rank, fault.step, phase);
}

void report(const Fault& fault, std::int64_t step) {
  core::log_warning(fmt::format("--inject {}: rank {} injects the fault, in step {}",
                                to_text(fault), fault.rank, step));
}

/// Name of a phase in `--inject`, and the activity (`core::ProgressMonitor`) at whose beginning the
/// fault occurs.
struct FaultPhase {
  std::string_view name;
  core::Activity activity;
};
constexpr std::array<FaultPhase, 16> phases{
    {{"init", core::Activity::mpi_init},
     {"start", core::Activity::comparing_options},
     {"data", core::Activity::loading_data},
     {"planning", core::Activity::planning},
     {"data_wait", core::Activity::data_wait},
     {"upload", core::Activity::upload},
     {"forward", core::Activity::forward},
     {"backward", core::Activity::backward},
     {"exposed_communication", core::Activity::exposed_communication},
     {"update", core::Activity::update},
     {"results", core::Activity::combining_results},
     {"gathering", core::Activity::gathering_times},
     {"evaluation", core::Activity::evaluation},
     {"output", core::Activity::writing_run_file},
     {"saving", core::Activity::saving_checkpoint},
     {"end", core::Activity::mpi_finalize}}};

Fault parse_fault(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() < 3 || parts.size() > 4) fail(text, "it does not have three or four parts");
  Fault fault;
  const auto kind = core::value_of<FaultKind>(parts[0]);
  if (!kind) {
    std::vector<std::string_view> names;
    for (const auto& value : named_values(FaultKind{})) names.push_back(value.name);
    fail(text, fmt::format("the kinds are {}", fmt::join(names, ", ")));
  }
  fault.kind = *kind;
  fault.rank = parse_number<int>(text, parts[1], "rank");
  fault.step = parse_number<std::int64_t>(text, parts[2], "step");
  if (const std::string_view only = only_phase(fault.kind); !only.empty()) {
    if (parts.size() == 4) fail(text, fmt::format("{} has no phase", parts[0]));
    if (fault.step == 0) fail(text, fmt::format("{} requires a step from 1", parts[0]));
    fault.phase = only;
    return fault;
  }
  fault.phase = parts.size() == 4 ? parts[3] : fault.step == 0 ? "start" : "forward";
  if (std::ranges::find(phases, fault.phase, &FaultPhase::name) == phases.end()) {
    std::vector<std::string_view> names;
    for (const FaultPhase& phase : phases) names.push_back(phase.name);
    fail(text, fmt::format("the phases are {}", fmt::join(names, ", ")));
  }
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(std::string_view list) {
  std::vector<Fault> faults;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    faults.push_back(parse_fault(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return faults;
}

FaultInjector::FaultInjector(std::span<const Fault> faults, int rank) {
  std::ranges::copy_if(faults, std::back_inserter(faults_),
                       [rank](const Fault& fault) { return fault.rank == rank; });
}

void FaultInjector::begin(core::Activity activity, std::int64_t step) {
  monitor_->begin(activity, step);
  step_ = std::max(step_, step);
  for (std::size_t i = 0; i < faults_.size();) {
    const Fault fault = faults_[i];
    const auto phase = std::ranges::find(phases, fault.phase, &FaultPhase::name);
    if (step_ < fault.step || phase->activity != activity) {
      ++i;
    } else if (fault.kind == FaultKind::slow) {
      ++i;
      std::this_thread::sleep_for(delay);
    } else {
      faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));  // it occurs once
      report(fault, step_);
      cause(fault);
    }
  }
}

void FaultInjector::cause(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kill: ::kill(::getpid(), SIGKILL); break;
    case FaultKind::segv: ::kill(::getpid(), SIGSEGV); break;
    case FaultKind::abort: std::abort();
    case FaultKind::exit: std::exit(0);
    case FaultKind::stop: ::kill(::getpid(), SIGSTOP); break;
    case FaultKind::stall:
      while (true) std::this_thread::sleep_for(1s);
    case FaultKind::finish: {
      monitor_->begin(core::Activity::mpi_finalize, 0);
      int is_initialised = 0;
      MPI_Initialized(&is_initialised);
      if (is_initialised != 0) MPI_Finalize();
      std::_Exit(0);
    }
    case FaultKind::slow: break;
    case FaultKind::throw_exception: throw std::runtime_error("injected exception");
    case FaultKind::oom: throw std::bad_alloc();
    case FaultKind::skip: is_skipping_ = true; break;
    case FaultKind::flip:
    case FaultKind::nan: damage_parameters(fault); break;
  }
}

void FaultInjector::damage_parameters(const Fault& fault) {
  core::check(state_ != nullptr, "a training plan was compiled before the first step");
  backend_->fetch(*state_);
  const std::span<float> parameters = state_->parameters.as<float>();
  if (fault.kind == FaultKind::nan) {
    // Parameters are in backward order: the first one belongs to the classifier, so the loss of the
    // step is not finite.
    parameters.front() = std::numeric_limits<float>::quiet_NaN();
  } else {
    const auto random = core::philox4x32({static_cast<std::uint32_t>(fault.step), 0, 0, 0},
                                         {static_cast<std::uint32_t>(fault.rank), 0});
    // A flipped bit of a zero may have no effect on the next update.
    const auto first =
        parameters.begin() + random[0] % static_cast<std::ptrdiff_t>(parameters.size());
    const auto is_nonzero = [](float value) { return value != 0; };
    auto found = std::find_if(first, parameters.end(), is_nonzero);
    if (found == parameters.end()) found = first;
    // A bit of the significand or the sign: the loss remains finite.
    constexpr std::uint32_t significand_bits = 23, sign = 31;
    const std::uint32_t index = random[1] % (significand_bits + 1);
    const std::uint32_t bit = std::uint32_t{1} << (index == significand_bits ? sign : index);
    *found = std::bit_cast<float>(std::bit_cast<std::uint32_t>(*found) ^ bit);
  }
  backend_->store(*state_);
}

}  // namespace lockstep::campaign
