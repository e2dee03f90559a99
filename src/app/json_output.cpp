// SPDX-License-Identifier: BSD-3-Clause
#include "json_output.hpp"

#include "lockstep/record/provenance.hpp"
#include "options/option_table.hpp"

namespace lockstep::app {

nlohmann::json describe_job(const Job& job) {
  nlohmann::json options = nlohmann::json::object();
  for (const auto& [name, value] : entries(job.config)) options[name] = value;
  nlohmann::json ranks = nlohmann::json::array();
  for (const auto& rank : job.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"local_rank", rank.local_rank},
                     {"host", rank.host},
                     {"hostname", rank.hostname},
                     {"cpu_list", rank.cpu_list},
                     {"device_name", rank.device_name}});
  }
  return {{"command", job.config.command},
          {"build", record::build_id()},
          {"device_library", job.backend->device().library_versions()},
          {"config", options},
          {"learning_rate", job.config.global_batch > 0
                                ? nlohmann::json(job.config.optimiser.peak(job.config.global_batch))
                                : nlohmann::json()},
          {"parameters", job.graph.parameter_count()},
          {"ranks", ranks}};
}

nlohmann::json to_json(const train::RunSummary& summary, int ranks) {
  return {{"steps", summary.steps},
          {"last_step", summary.last_step},
          {"images_per_second", summary.images_per_second},
          {"images_per_second_per_rank", summary.images_per_second / ranks},
          {"timed_epoch", summary.timed_epoch},
          {"timed_steps", summary.timed_steps},
          {"steps_per_epoch", summary.steps_per_epoch},
          {"images_per_epoch", summary.images_per_epoch},
          {"is_extrapolated", !summary.epoch_complete},
          {"timed_epoch_is_complete", summary.epoch_complete},
          {"epoch_seconds", summary.epoch_seconds},
          {"training_seconds", summary.training_seconds},
          {"exposed_communication_share", summary.exposed_share},
          {"lacking_processor_share", summary.lacking_share},
          {"train_loss", summary.train_loss},
          {"train_accuracy", summary.train_accuracy},
          {"last_test_loss", summary.last_test_loss},
          {"last_test_accuracy", summary.last_test_accuracy},
          {"best_test_accuracy", summary.best_test_accuracy},
          {"peak_memory_bytes", summary.peak_memory_bytes}};
}

void print_json(Console& console, const nlohmann::json& json) {
  // Names of hosts and files need not be valid UTF-8.
  console.output().write(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

core::ExitStatus end_dry_run(const Job& job, Console& console,
                             const comm::Communicator& communicator) {
  console.print("All checks passed; --dry-run stops before the first step.\n");
  if (communicator.rank() == 0 && job.config.json) print_json(console, describe_job(job));
  return core::ExitStatus::done;
}

std::string device_noun(const train::Config& config) {
  return config.device.kind == backend::DeviceKind::cuda ? "GPU" : "CPU rank";
}

}  // namespace lockstep::app
