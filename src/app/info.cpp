// SPDX-License-Identifier: BSD-3-Clause
// lockstep info

#include <fmt/format.h>

#include "console.hpp"
#include "environment.hpp"
#include "job.hpp"
#include "json_output.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/record/output_file.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::app {

namespace {

/// Returns name and library versions of the device, or the reason why it is not available.
std::string availability(backend::DeviceKind kind) {
  try {
    const auto device = backend::make_backend(kind, 1);
    return fmt::format("{}, {}", device->device().name(), device->device().library_versions());
  } catch (const core::Error& error) {
    return fmt::format("not available: {}", error.what());
  }
}

/// Returns the environment variables that configure libraries, without those by which a launcher
/// passes internal values to its processes.
record::Attributes library_variables() {
  record::Attributes all = record::environment_variables();
  std::erase_if(all, [](const auto& variable) {
    return variable.first.starts_with("OMPI_") || variable.first.starts_with("SLURM_");
  });
  return all;
}

void write_device_description(const Job& job, comm::Communicator& communicator) {
  train::together(communicator, [&] {
    if (communicator.rank() != 0) return;
    const std::string description = job.backend->device().description();
    if (description.empty()) {
      core::fail(
          core::ExitStatus::usage,
          fmt::format(
              "--write-device-description requires a GPU, but the device is '{}'; use --device "
              "cuda on a machine with a GPU",
              job.backend->device().name()));
    }
    record::write_text(job.config.device_description, description + "\n",
                       record::OverwriteMode::replace, record::OutputKind::device_description);
  });
}

}  // namespace

core::ExitStatus info_command(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  const bool is_first = communicator.rank() == 0;
  const Job job = prepare_job(invocation);
  Console console(invocation.output, verbosity_of(job.config, communicator));
  const std::string cpu = availability(backend::DeviceKind::cpu);
  const std::string cuda = availability(backend::DeviceKind::cuda);
  const MemoryLimit memory = memory_limit(job, communicator);
  const std::vector<Fact> facts = environment_facts(job, communicator.rank(), memory);
  const record::Attributes versions = record::versions(), variables = library_variables();

  std::string text = record::build_id() + "\n\nDevices\n";
  text += fmt::format("  cpu   {}\n  cuda  {}\n\nRanks\n", cpu, cuda);
  for (const auto& rank : job.ranks) {
    text += fmt::format("  rank {:<4} {} (local rank {}), processors {}, {} of memory\n", rank.rank,
                        rank.hostname, rank.local_rank, rank.cpu_list,
                        core::format_bytes(double(rank.memory_bytes)));
  }
  text += "\nEnvironment of rank 0\n";
  for (const Fact& fact : facts)
    text += fmt::format("  {:<24} {} ({})\n", fact.name, fact.value, fact.source);
  text += fmt::format("\nVersions\n  {:<24} {}\n", "mpi", communicator.library_version());
  for (const auto& [name, value] : versions) text += fmt::format("  {:<24} {}\n", name, value);
  if (!variables.empty()) text += "\nEnvironment variables of rank 0\n";
  for (const auto& [name, value] : variables) text += fmt::format("  {:<24} {}\n", name, value);
  console.print(text);
  if (!job.config.device_description.empty()) write_device_description(job, communicator);
  if (is_first && job.config.json) {
    auto json = describe_job(job);
    json["devices"] = {{"cpu", cpu}, {"cuda", cuda}};
    json["free_memory_bytes"] = memory.bytes;
    for (const Fact& fact : facts)
      json["environment"].push_back(
          {{"name", fact.name}, {"value", fact.value}, {"source", fact.source}});
    json["versions"]["mpi"] = communicator.library_version();
    for (const auto& [name, value] : versions) json["versions"][name] = value;
    json["environment_variables"] = nlohmann::json::object();
    for (const auto& [name, value] : variables) json["environment_variables"][name] = value;
    print_json(console, json);
  }
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
