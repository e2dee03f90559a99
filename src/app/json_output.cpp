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
                                ? nlohmann::json(job.config.peak_learning_rate())
                                : nlohmann::json()},
          {"parameters", job.graph.parameter_count()},
          {"ranks", ranks}};
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
  return config.device == backend::DeviceKind::cuda ? "GPU" : "CPU rank";
}

}  // namespace lockstep::app
