#include "job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "binding.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/memory.hpp"

namespace lockstep::app {

namespace {

std::string encode(const record::RankInfo& info) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", info.local_rank, info.memory_bytes,
                     info.hostname, info.cpu_list, info.device_name, info.device_uuid,
                     info.pci_bus_id);
}

record::RankInfo decode(int rank, std::string_view text) {
  std::array<std::string_view, 7> fields;
  for (auto& field : fields) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    field = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  record::RankInfo info;
  info.rank = rank;
  std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), info.local_rank);
  std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), info.memory_bytes);
  info.hostname = fields[2];
  info.cpu_list = fields[3];
  info.device_name = fields[4];
  info.device_uuid = fields[5];
  info.pci_bus_id = fields[6];
  return info;
}

std::vector<record::RankInfo> gather_ranks(comm::Communicator& communicator,
                                           const record::RankInfo& own) {
  std::vector<record::RankInfo> ranks;
  for (const auto& text : communicator.all_gather(encode(own))) {
    ranks.push_back(decode(static_cast<int>(ranks.size()), text));
  }
  return ranks;
}

/// This process and its processor.
record::RankInfo describe_own(comm::Communicator& communicator) {
  record::RankInfo own = record::describe_process();
  own.local_rank = communicator.local_rank();
  return own;
}

/// In the places of the processors the devices that compute, where they are others.
void name_devices(Job& job, comm::Communicator& communicator) {
  const auto device = job.backend->identity();
  record::RankInfo own = job.ranks.at(static_cast<std::size_t>(communicator.rank()));
  if (device) {
    own.device_name = device->name;
    own.device_uuid = device->uuid;
    own.pci_bus_id = device->pci_bus_id;
    own.memory_bytes = device->memory_bytes;
  }
  job.ranks = gather_ranks(communicator, own);
}

/// Fills in the threads of this rank, and warns where all of them are too many.
void share_processors(Job& job, comm::Communicator& communicator) {
  if (job.config.threads == 0) {
    job.config.threads = fair_threads(job.ranks, communicator.rank());
  }
  std::vector<int> threads;
  for (const auto& text : communicator.all_gather(fmt::format("{}", job.config.threads))) {
    threads.push_back(std::stoi(text));
  }
  const std::string warning = oversubscription(job.ranks, threads);
  if (!warning.empty() && communicator.rank() == 0) core::log_warning(warning);
}

data::DataOptions data_options(const train::Config& config) {
  return {.source = config.data,
          .train_samples = static_cast<std::size_t>(config.train_samples),
          .test_samples = static_cast<std::size_t>(config.test_samples),
          .seed = config.seed};
}

graph::Graph make_graph(train::Config& config, const data::DataSizes& sizes) {
  if (config.classes == 0) config.classes = sizes.classes;
  if (config.classes < sizes.classes) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--classes {}: the data have {}; use at least as many", config.classes,
                           sizes.classes));
  }
  return graph::make_model(config.model,
                           {.classes = config.classes,
                            .image = sizes.image,
                            .label_smoothing = static_cast<float>(config.label_smoothing)});
}

}  // namespace

Job prepare_job(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  Job job{.config = {}, .ranks = {}, .sizes = {}, .graph = graph::Graph(""), .backend = {}};
  job.process_bytes = record::resident_memory().now;
  job.ranks = gather_ranks(communicator, describe_own(communicator));
  train::together(communicator,
                  [&] { job.config = train::resolve(invocation.config, communicator.size()); });
  share_processors(job, communicator);
  train::together(communicator, [&] {
    job.config.device = job.config.planned_for.empty() ? backend::resolve(job.config.device)
                                                       : backend::DeviceKind::cuda;
    job.backend = backend::make_backend({.kind = job.config.device,
                                         .threads = job.config.threads,
                                         .local_rank = communicator.local_rank(),
                                         .deterministic = job.config.deterministic,
                                         .planned_for = job.config.planned_for});
    job.sizes = data::sizes(data_options(job.config));
    job.graph = make_graph(job.config, job.sizes);
    train::require_enough_images(job.config, job.sizes.train);
  });
  name_devices(job, communicator);
  return job;
}

data::TrainingData load_data(const Job& job, comm::Communicator& communicator) {
  data::TrainingData data;
  train::together(communicator, [&] { data = data::load(data_options(job.config)); });
  train::require_equal(communicator, {{"digest of the images and labels", data.digest}}, "data");
  return data;
}

std::uint64_t memory_limit(const Job& job, comm::Communicator& communicator) {
  if (job.config.memory_limit > 0) return job.config.memory_limit;
  if (const auto bytes = job.backend->memory_of_its_own()) return *bytes;
  // This process already takes its part of what is not free any more.
  return train::available_memory() / static_cast<std::uint64_t>(communicator.local_size()) +
         record::resident_memory().now;
}

train::MemoryEstimate estimate_memory(const Job& job, comm::Communicator& communicator) {
  train::MemoryEstimate memory;
  train::together(communicator, [&] {
    memory =
        train::estimate_memory(job.config, job.graph, *job.backend, job.sizes,
                               {communicator.size(), communicator.local_size()}, job.process_bytes);
  });
  return memory;
}

record::RunHeader run_header(const Job& job, const Invocation& invocation,
                             std::span<const std::size_t> bucket_bytes) {
  record::RunHeader header;
  header.command_line = invocation.command_line;
  header.config = train::entries(job.config);
  header.environment = record::provenance();
  header.environment.emplace_back("mpi_version", invocation.communicator.library_version());
  header.environment.emplace_back("device_library", job.backend->library_versions());
  header.ranks = job.ranks;
  header.bucket_bytes.assign(bucket_bytes.begin(), bucket_bytes.end());
  return header;
}

void check_output(const train::Config& config, comm::Communicator& communicator) {
  train::together(communicator, [&] {
    if (communicator.rank() != 0 || config.output.empty()) return;
    record::check_writable(config.output,
                           config.overwrite ? record::Existing::replace : record::Existing::refuse);
  });
}

}  // namespace lockstep::app
