// SPDX-License-Identifier: BSD-3-Clause
// lockstep evaluate

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.hpp"
#include "header.hpp"
#include "load_data.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/plausibility.hpp"
#include "lockstep/train/weights.hpp"

namespace lockstep::app {

core::ExitStatus evaluate_command(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  train::together(communicator, [&] {
    if (!invocation.options.training.init_from.empty()) return;
    core::fail(core::ExitStatus::usage,
               "evaluate requires weights; specify their file with --init-from FILE");
  });
  Job job(invocation);
  const train::Config& config = job.options.training;
  job.console.print(describe_place(job) + "\n");

  const data::TrainingData data = load_data(job);
  backend::ModelState state;
  std::optional<train::Evaluator> evaluator;
  train::together(communicator, [&] {
    state = job.backend->make_state(job.graph);
    evaluator.emplace(config, job.graph, *data.test, *job.backend, state, communicator);
  });
  core::begin_activity(job.monitor, core::Activity::reading_weights);
  train::load_weights(config.init_from, job.graph, state, communicator);
  job.backend->store(state);
  if (job.options.output.is_dry_run) return end_dry_run(job);

  const double begin = core::host_seconds();
  core::begin_activity(job.monitor, core::Activity::evaluation);
  const train::Evaluation result = *evaluator->run();
  const double seconds = core::host_seconds() - begin;
  job.console.print(fmt::format(
      "Test accuracy {:.2f} % ({} of {} images), loss {}; {}, {:.1f} img/s.\n",
      100 * result.accuracy(), result.correct, result.images, core::format_fixed(result.loss(), 4),
      core::format_seconds(seconds), static_cast<double>(result.images) / seconds));
  add_warning(job, train::implausible_test_loss(job.graph, result.loss()));
  print_json(job, {{"results",
                    {{"test_accuracy", result.accuracy()},
                     {"test_loss", result.loss()},
                     {"correct", result.correct},
                     {"images", result.images},
                     {"seconds", seconds}}}});
  if (std::isfinite(result.loss())) return core::ExitStatus::done;
  comm::fail_together(communicator, core::ExitStatus::diverged,
                      "the test loss is not finite: the outputs of the network overflow; the "
                      "training of these weights diverged, or they are of another network");
}

}  // namespace lockstep::app
