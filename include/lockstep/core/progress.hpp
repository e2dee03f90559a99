// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/named_value.hpp"

namespace lockstep::core {

/// What a rank does, as it reports to its watchdog. Commands and trainings begin these activities
/// in about this order.
enum class Activity : std::int32_t {
  program_start,
  reading_options,
  mpi_init,
  creating_communicators,
  comparing_options,
  opening_device,
  loading_data,
  timing_precisions,
  cutting_network,
  planning,
  estimating_memory,
  measuring_peak_rates,
  measuring_layer,
  running_stack,
  all_reduce_sweep,
  reading_weights,
  reading_checkpoint,
  preparing_all_reduce,
  preparing_first_step,

  // Phases of a training step (record::Phase).
  data_wait,
  upload,
  forward,
  backward,
  update,
  exposed_communication,

  combining_results,
  profile,
  gathering_times,
  saving_checkpoint,
  waiting_for_checkpoint,
  evaluation,
  writing_run_file,
  mpi_finalize,
};

/// Texts of the activities, in the order of the enumeration.
inline constexpr std::array<NamedValue<Activity>, 33> activity_texts{{
    {Activity::program_start, "program start"},
    {Activity::reading_options, "reading the options"},
    {Activity::mpi_init, "MPI_Init_thread"},
    {Activity::creating_communicators, "creating communicators"},
    {Activity::comparing_options, "comparing the options of all ranks"},
    {Activity::opening_device, "opening the device"},
    {Activity::loading_data, "loading the data"},
    {Activity::timing_precisions, "timing the precisions"},
    {Activity::cutting_network, "cutting the network"},
    {Activity::planning, "planning and kernel timing"},
    {Activity::estimating_memory, "estimating the memory"},
    {Activity::measuring_peak_rates, "measuring the peak rates"},
    {Activity::measuring_layer, "measuring a layer"},
    {Activity::running_stack, "running a stack"},
    {Activity::all_reduce_sweep, "all-reduce sweep"},
    {Activity::reading_weights, "reading weights"},
    {Activity::reading_checkpoint, "reading a checkpoint"},
    {Activity::preparing_all_reduce, "preparing the all-reduce"},
    {Activity::preparing_first_step, "preparing the first step"},
    {Activity::data_wait, "data_wait"},
    {Activity::upload, "upload"},
    {Activity::forward, "forward"},
    {Activity::backward, "backward"},
    {Activity::update, "update"},
    {Activity::exposed_communication, "exposed_communication"},
    {Activity::combining_results, "combining the results"},
    {Activity::profile, "profile"},
    {Activity::gathering_times, "gathering the times of the epoch"},
    {Activity::saving_checkpoint, "saving a checkpoint"},
    {Activity::waiting_for_checkpoint, "waiting for a checkpoint to be written"},
    {Activity::evaluation, "evaluation"},
    {Activity::writing_run_file, "writing the run file"},
    {Activity::mpi_finalize, "MPI_Finalize"},
}};
static_assert(std::ranges::is_sorted(activity_texts, {}, &NamedValue<Activity>::value) &&
              activity_texts.back().value == Activity::mpi_finalize &&
              activity_texts.size() == static_cast<std::size_t>(Activity::mpi_finalize) + 1);

/// Returns the text of an activity. Safe in signal handlers.
constexpr const char* text_of(Activity activity) noexcept {
  return activity_texts[static_cast<std::size_t>(activity)].name.data();
}

/// Interface for progress reports, with which a watchdog distinguishes a slow rank from one that
/// hangs. Code that reports progress needs no clock and no time limit. Calls are cheap (they
/// increment a counter).
class ProgressMonitor {
 public:
  virtual ~ProgressMonitor() = default;

  /// Reports that the rank begins `activity` in training step `step` (counted from 1; 0 outside of
  /// training steps). Counts as progress. Called by the main thread only.
  virtual void begin(Activity activity, std::int64_t step) = 0;

  /// Reports that a part of the current activity is complete. Thread-safe.
  virtual void advance() noexcept = 0;
};

/// Calls `monitor->begin`; does nothing if `monitor` is null.
inline void begin_activity(ProgressMonitor* monitor, Activity activity, std::int64_t step = 0) {
  if (monitor != nullptr) monitor->begin(activity, step);
}
/// Calls `monitor->advance`; does nothing if `monitor` is null.
inline void report_progress(ProgressMonitor* monitor) noexcept {
  if (monitor != nullptr) monitor->advance();
}

}  // namespace lockstep::core
