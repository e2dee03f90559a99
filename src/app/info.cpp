// SPDX-License-Identifier: BSD-3-Clause
// lockstep info

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "job.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/process/limits.hpp"
#include "lockstep/core/process/openmp.hpp"
#include "lockstep/record/provenance.hpp"

namespace lockstep::app {

namespace {

/// What the program has read about the environment of a rank.
struct Fact {
  std::string name, value;
  std::string source;  ///< file, variable, option or system call
};

/// Adds the limits, or one fact "none" if there are none.
template <class Format>
void add_limits(std::vector<Fact>& facts, const std::string& name,
                const std::vector<core::Limit>& limits, const std::string& sources, Format format) {
  for (const core::Limit& limit : limits)
    facts.push_back({name, format(limit.value), limit.source});
  if (limits.empty()) facts.push_back({name, "none", sources});
}

/// Returns launcher, processors, threads and limits of this rank. `share`: memory that each rank
/// may use.
std::vector<Fact> environment_facts(const Job& job, const study::MemoryLimit& share) {
  const record::RankInfo& own = job.ranks.at(static_cast<std::size_t>(job.communicator.rank()));
  const int openmp_limit = core::openmp_thread_limit();
  const bool is_bound = core::openmp_binds_threads();
  const auto bytes = [](double value) { return core::format_bytes(value); };
  const auto count = [](double value) { return fmt::format("{:.0f}", value); };
  std::vector<Fact> facts{
      {"launcher", comm::launcher_of_process().value_or("none"), "environment variables"},
      {"processors", own.cpu_list,
       is_bound ? "OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY" : "sched_getaffinity"},
      {"physical cores", own.core_list, "/sys/devices/system/cpu/cpu*/topology"},
  };
  add_limits(facts, "CPU quota", core::processor_quotas(), "/proc/self/cgroup", [](double value) {
    return fmt::format("{} processors", core::format_fixed(value, 2));
  });
  facts.push_back(
      {"threads", fmt::format("{}", job.options.training.device.threads), job.threads_reason});
  facts.push_back(
      {"OpenMP thread limit",
       openmp_limit < std::numeric_limits<int>::max() ? fmt::format("{}", openmp_limit) : "none",
       "OMP_THREAD_LIMIT"});
  add_limits(facts, "thread limit", core::thread_limits(), "ulimit -u, /proc/self/cgroup", count);
  add_limits(facts, "memory limit", core::memory_limits(), "/proc/meminfo", bytes);
  facts.push_back({"memory per rank", bytes(static_cast<double>(share.bytes)), share.source});
  return facts;
}

struct DeviceReport {
  std::string availability;    ///< name and library versions, or why the device is not available
  nlohmann::json description;  ///< null if the device has none
};

/// Returns the description of the device; null, with a warning, if its library does not return it.
nlohmann::json description_of(const backend::Device& device) {
  try {
    const std::string text = device.description();
    return text.empty() ? nlohmann::json() : nlohmann::json::parse(text);
  } catch (const std::exception& error) {
    core::log_warning(error.what());
    return {};
  }
}

DeviceReport report_device(backend::DeviceKind kind) {
  try {
    const auto backend = backend::make_backend(kind, 1);
    const backend::Device& device = backend->device();
    return {.availability = fmt::format("{}, {}", device.name(), device.library_versions()),
            .description = description_of(device)};
  } catch (const core::Error& error) {
    return {.availability = fmt::format("not available: {}", error.what()), .description = {}};
  }
}

/// Returns the environment variables that configure libraries, without those by which a launcher
/// passes internal values to its processes.
record::Attributes library_variables() {
  record::Attributes all = record::environment_variables();
  constexpr std::string_view launchers[] = {"OMPI_", "PRTE_MCA_", "PMIX_MCA_", "I_MPI_", "SLURM_"};
  std::erase_if(all, [&](const auto& variable) {
    return std::ranges::any_of(launchers,
                               [&](auto prefix) { return variable.first.starts_with(prefix); });
  });
  return all;
}

}  // namespace

core::ExitStatus info_command(const Invocation& invocation) {
  Job job(invocation);
  const std::string cpu = report_device(backend::DeviceKind::cpu).availability;
  const auto [cuda, cuda_description] = report_device(backend::DeviceKind::cuda);
  const study::MemoryLimit memory = memory_limit(job);
  const std::vector<Fact> facts = environment_facts(job, memory);
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
  text += fmt::format("\nVersions\n  {:<24} {}\n", "mpi", job.communicator.library_version());
  for (const auto& [name, value] : versions) text += fmt::format("  {:<24} {}\n", name, value);
  if (!variables.empty()) text += "\nEnvironment variables of rank 0\n";
  for (const auto& [name, value] : variables) text += fmt::format("  {:<24} {}\n", name, value);
  job.console.print(text);
  nlohmann::json json;
  json["devices"] = {{"cpu", cpu}, {"cuda", cuda}};
  if (!cuda_description.is_null()) json["device_descriptions"]["cuda"] = cuda_description;
  json["free_memory_bytes"] = memory.bytes;
  for (const Fact& fact : facts)
    json["environment"].push_back(
        {{"name", fact.name}, {"value", fact.value}, {"source", fact.source}});
  json["versions"]["mpi"] = job.communicator.library_version();
  for (const auto& [name, value] : versions) json["versions"][name] = value;
  json["environment_variables"] = nlohmann::json::object();
  for (const auto& [name, value] : variables) json["environment_variables"][name] = value;
  print_json(job, json);
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
