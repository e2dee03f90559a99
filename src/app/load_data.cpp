// SPDX-License-Identifier: BSD-3-Clause
#include "load_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "guard/early_stop.hpp"
#include "lockstep/data/plausibility.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::app {

namespace {

/// Warns of images and labels that are probably not what the user meant. Collective.
void warn_of_data(Job& job, const data::TrainingData& data) {
  const bool is_selected = job.invocation.options.training.data.train_samples > 0;
  std::vector<std::string> warnings;
  train::together(job.communicator, [&] {
    if (!job.is_first) return;
    warnings =
        data::implausible(data, is_selected ? data::Extent::first_images : data::Extent::all);
  });
  for (const std::string& warning : warnings) add_warning(job, warning);
}

}  // namespace

data::TrainingData load_data(Job& job) {
  core::begin_activity(job.monitor, core::Activity::loading_data);
  data::TrainingData data;
  train::together(job.communicator, [&] { data = data::load(data_options(job)); });
  const core::Normalisation& values = data.train->info().normalisation;
  train::require_equal(
      job.communicator,
      {{"digest of the images and labels", data.digest},
       {"normalisation of the images", fmt::format("mean {}, std {}", fmt::join(values.mean, ", "),
                                                   fmt::join(values.standard_deviation, ", "))}},
      "data");
  warn_of_data(job, data);
  end_if_signalled(job.invocation.stopped, job.communicator);
  return data;
}

}  // namespace lockstep::app
