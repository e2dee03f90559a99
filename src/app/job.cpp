// SPDX-License-Identifier: BSD-3-Clause
#include "job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "binding.hpp"
#include "guard/early_stop.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/meter/processor_meter.hpp"
#include "lockstep/core/process/limits.hpp"
#include "lockstep/core/process/openmp.hpp"
#include "lockstep/core/process/processors.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/graph/operations/max_pool.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/study/memory.hpp"
#include "lockstep/study/roofline.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"
#include "options/option_table.hpp"
#include "shares.hpp"

namespace lockstep::app {

namespace {

/// Returns the description of this rank: its process, processor and host.
record::RankInfo describe_own(comm::Communicator& communicator) {
  record::RankInfo own = record::describe_process();
  own.rank = communicator.rank();
  own.local_rank = communicator.local_rank();
  own.host = communicator.host();
  return own;
}

/// Prints a warning about the validity of timings on rank 0, if it is not empty, and adds it to the
/// warnings for the run file.
void warn(Job& job, const comm::Communicator& communicator, const std::string& warning) {
  if (warning.empty()) return;
  job.warnings.push_back(warning);
  if (communicator.rank() == 0) core::log_warning(warning);
}

/// Warns if a processor trains more slowly in bfloat16 than in float32, unless the algorithm of the
/// convolutions is named. Collective: all ranks must call this.
void check_precision(Job& job, comm::Communicator& communicator) {
  if (job.config.device.kind != backend::DeviceKind::cpu ||
      job.config.plan.precision == core::Precision::fp32 ||
      job.config.plan.convolution_algorithm != backend::ConvolutionAlgorithm::automatic)
    return;
  constexpr double tolerance = 1.05;
  core::begin_activity(job.monitor, core::Activity::timing_precisions);
  double time = 0;
  train::together(communicator,
                  [&] { time = study::relative_step_time(job.config, job.graph, *job.backend); });
  if (time <= tolerance) return;
  warn(job, communicator,
       fmt::format("{0} is slower than fp32 on this processor: a step of {1} with {2} images takes "
                   "{3:.2f} times as long; try --precision fp32",
                   core::name(job.config.plan.precision), job.config.network.model,
                   study::timed_batch(job.config), time));
}

/// Warns if ranks share a GPU although that is allowed. If it is not, the transport of gradients
/// reports the error; stages have none in common, so the error is reported here. Collective.
void check_gpu_sharing(Job& job, comm::Communicator& communicator) {
  const std::string shared = shared_gpu(job.ranks);
  if (job.config.transport.allow_sharing) return warn(job, communicator, shared);
  const bool has_stages = job.config.pipeline.stages > 1 || job.config.command == "stack";
  if (shared.empty() || !has_stages) return;
  comm::fail_together(communicator, core::ExitStatus::usage,
                      shared + ", or use --allow-gpu-sharing for a test");
}

/// Replaces the processors in `job.ranks` by the devices that compute, if these are other devices.
/// Collective: all ranks must call this.
void name_devices(Job& job, comm::Communicator& communicator) {
  const auto device = job.backend->device().identity();
  record::RankInfo own = job.ranks.at(static_cast<std::size_t>(communicator.rank()));
  if (device) {
    own.device_name = device->name;
    own.device_uuid = device->uuid;
    own.pci_bus_id = device->pci_bus_id;
    own.memory_bytes = device->memory_bytes;
  }
  job.ranks = comm::all_gather(communicator, own);
}

/// Returns the first of the texts of all ranks that is not empty. Collective.
std::string first_text(comm::Communicator& communicator, const std::string& own) {
  for (std::string& text : comm::all_gather(communicator, own)) {
    if (!text.empty()) return std::move(text);
  }
  return "";
}

/// Sets the number of threads of this rank if it is not given, warns if the ranks have too many
/// threads, and binds ranks that compute on the same processors to parts of these, unless OpenMP
/// binds the threads. Collective: all ranks must call this.
void share_processors(Job& job, comm::Communicator& communicator) {
  const int rank = communicator.rank();
  const std::vector<core::Limit> quotas = core::processor_quotas();
  const Domains domains = gather_domains(communicator, quotas);
  if (job.config.device.threads == 0) {
    const ThreadCount count = default_threads(
        job.ranks, rank,
        {core::openmp_requested_threads(), core::openmp_thread_limit(), quotas, domains});
    job.config.device.threads = count.threads;
    job.threads_reason = count.reason;
  }
  train::together(communicator, [&] {
    require_bearable(job.config.device.threads, job.ranks.at(static_cast<std::size_t>(rank)));
  });
  const std::vector<int> threads = comm::all_gather(communicator, job.config.device.threads);
  warn(job, communicator, oversubscription(job.ranks, threads));
  warn(job, communicator, first_text(communicator, exceeded_quota(quotas, domains, threads)));
  if (job.config.device.kind != backend::DeviceKind::cpu) return;
  const bool is_bound = core::openmp_binds_threads();
  warn(job, communicator, common_places(job.ranks, comm::all_gather(communicator, is_bound)));
  if (is_bound) return;
  if (job.config.binding == train::Binding::none) return;
  const auto share = share_of_processors(job.ranks, threads, rank, core::core_of);
  if (share.empty() || !core::bind_to(share)) return;
  const record::RankInfo bound = record::describe_process();
  record::RankInfo& own = job.ranks.at(static_cast<std::size_t>(rank));
  own.cpu_list = bound.cpu_list;  // the other ranks learn it when the devices are named
  own.core_list = bound.core_list;
}

data::DataOptions data_options(const Job& job) {
  data::DataOptions options = train::data_options(job.config);
  options.progress = job.monitor;
  return options;
}

/// Returns the name of the engine log of a rank; empty if none is to be written.
std::string engine_log(const train::Config& config, int rank) {
  if (config.device.engine_log.empty() || rank == 0) return config.device.engine_log;
  return fmt::format("{}.rank{}", config.device.engine_log, rank);
}

backend::DeviceOptions device_options(const Job& job, const comm::Communicator& communicator) {
  backend::DeviceOptions options = job.config.device;
  options.local_rank = communicator.local_rank();
  options.cache_directory = core::cache_directory();
  options.batch_norm_multiprocessors =
      train::multiprocessors_of_batch_norm(job.config, communicator.size());
  options.engine_log = engine_log(job.config, communicator.rank());
  options.progress = job.monitor;
  return options;
}

/// Throws if an output of this rank is another output, also `standard`, or an input, or would
/// replace an existing file of another kind.
void require_outputs(const train::Config& config, int rank, const StandardOutput& standard) {
  using record::OutputKind;
  std::vector<record::OutputFile> outputs;
  std::vector<record::NamedFile> inputs;
  const auto add = [&](std::string_view option, const std::string& path, OutputKind kind) {
    if (!path.empty()) outputs.push_back({{option, path}, kind});
  };
  if (rank == 0) {
    add("--trace", config.trace, OutputKind::trace);
    add("--output", config.output, OutputKind::run_file);
    add("--write-device-description", config.device_description, OutputKind::device_description);
  }
  add("--engine-log", engine_log(config, rank), OutputKind::engine_log);
  if (!config.init_from.empty()) inputs.push_back({"--init-from", config.init_from});
  if (config.checkpoint.resume != "none" && config.checkpoint.resume != "auto")
    inputs.push_back({"--resume", config.checkpoint.resume});
  const std::string descriptor = fmt::format("/proc/self/fd/{}", standard.descriptor());
  inputs.push_back({"standard output", descriptor});
  record::require_distinct(outputs, inputs, config.checkpoint.directory);
  // The device opens this file; the other outputs are checked when they are opened.
  if (!config.device.engine_log.empty())
    record::require_kind(outputs.back().path, outputs.back().kind);
}

graph::Graph make_graph(train::Config& config, const data::DatasetInfo& dataset) {
  if (config.network.classes == 0) config.network.classes = dataset.classes;
  if (config.network.classes < dataset.classes) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--classes {}: the dataset has {} classes; use at least as many",
                           config.network.classes, dataset.classes));
  }
  graph::Graph graph = graph::make_model(
      config.network.model, {.classes = config.network.classes,
                             .image = dataset.image,
                             .label_smoothing = static_cast<float>(config.network.label_smoothing),
                             .swap_relu_pool = config.network.swap_relu_pool});
  const auto is_pool = [](const graph::Node& node) { return node.operation.is<graph::MaxPool>(); };
  if (config.network.swap_relu_pool && std::ranges::none_of(graph.nodes(), is_pool)) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--swap-relu-pool: {} has no ReLU directly before a max-pool; remove "
                           "the option",
                           config.network.model));
  }
  return graph;
}

/// Returns the memory that this rank can use now. `limits`: on the host, with their `domains`.
MemoryLimit free_memory(const backend::Backend& device, const std::vector<core::Limit>& limits,
                        const Domains& domains) {
  if (const auto bytes = device.device().available_memory())
    return {*bytes, "free memory of the device"};
  if (limits.empty()) return {};
  const core::Limit share = core::smallest_share(limits, domains);
  // The memory that this process has already taken is not free, but it is part of its share.
  return {static_cast<std::uint64_t>(share.value) + core::resident_memory().now, share.source};
}

}  // namespace

Job prepare_job(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  Job job{.config = {},
          .ranks = {},
          .sizes = {},
          .graph = graph::Graph(""),
          .backend = {},
          .threads_reason = "--threads",
          .process_bytes = 0,
          .warnings = {}};
  job.process_bytes = core::resident_memory().now;
  job.monitor = invocation.monitor;
  core::begin_activity(job.monitor, core::Activity::opening_device);
  job.ranks = comm::all_gather(communicator, describe_own(communicator));
  train::together(communicator, [&] {
    job.config = train::resolve(invocation.config, communicator.size());
    job.config.device.kind = job.config.device.target_gpu.empty()
                                 ? backend::resolve(job.config.device.kind)
                                 : backend::DeviceKind::cuda;
    if (job.config.bucket_mib == 0)
      job.config.bucket_mib = train::default_bucket_mib(job.config.device.kind);
  });
  share_processors(job, communicator);
  train::together(communicator, [&] {
    if (job.config.device.kind == backend::DeviceKind::cpu)
      core::start_openmp_threads(job.config.device.threads);
    require_outputs(job.config, communicator.rank(), invocation.output);
    job.backend = invocation.make_backend(device_options(job, communicator));
    job.sizes = data::sizes(data_options(job));
    job.config.data.train_samples = static_cast<std::int64_t>(job.sizes.train);
    job.config.data.test_samples = static_cast<std::int64_t>(job.sizes.test);
    job.graph = make_graph(job.config, job.sizes.info);
    train::require_enough_images(job.config, job.sizes.train);
  });
  warn(job, communicator, job.sizes.info.warning);
  name_devices(job, communicator);
  check_gpu_sharing(job, communicator);
  if (job.config.command == "train" || job.config.command == "plan")
    check_precision(job, communicator);
  end_if_signalled(job.config, communicator);
  return job;
}

data::TrainingData load_data(const Job& job, comm::Communicator& communicator) {
  core::begin_activity(job.monitor, core::Activity::loading_data);
  data::TrainingData data;
  train::together(communicator, [&] { data = data::load(data_options(job)); });
  const core::Normalisation& values = data.train->info().normalisation;
  train::require_equal(
      communicator,
      {{"digest of the images and labels", data.digest},
       {"normalisation of the images", fmt::format("mean {}, std {}", fmt::join(values.mean, ", "),
                                                   fmt::join(values.standard_deviation, ", "))}},
      "data");
  end_if_signalled(job.config, communicator);
  return data;
}

MemoryLimit memory_limit(const Job& job, comm::Communicator& communicator) {
  if (job.config.memory_limit > 0) return {job.config.memory_limit, "--memory-limit"};
  const std::vector<core::Limit> limits = core::memory_limits();
  const Domains domains = gather_domains(communicator, limits);
  MemoryLimit own;
  train::together(communicator, [&] { own = free_memory(*job.backend, limits, domains); });
  const std::uint64_t least = comm::minimum(communicator, own.bytes);
  return {least, first_text(communicator, own.bytes <= least ? own.source : "")};
}

study::MemoryEstimate estimate_memory(const Job& job, comm::Communicator& communicator,
                                      study::MemoryDetail detail, const train::Pipeline* pipeline) {
  comm::Communicator& replicas = pipeline != nullptr ? *pipeline->replicas : communicator;
  core::begin_activity(job.monitor, core::Activity::planning);
  study::MemoryEstimate memory;
  train::together(communicator, [&] {
    memory = study::estimate_memory(
        job.config, pipeline != nullptr ? pipeline->graph() : job.graph, *job.backend, job.sizes,
        {replicas.size(), replicas.local_size()}, job.process_bytes, detail, pipeline);
  });
  end_if_signalled(job.config, communicator);
  return memory;
}

record::RunHeader run_header(const Job& job, const Invocation& invocation,
                             std::span<const std::size_t> bucket_bytes,
                             std::span<const std::string> further_warnings) {
  record::RunHeader header;
  header.command_line = invocation.command_line;
  header.config = entries(job.config);
  header.environment = record::provenance();
  header.environment.emplace_back("mpi_version", invocation.communicator.library_version());
  header.environment.emplace_back("device_library", job.backend->device().library_versions());
  std::vector<std::string> warnings = job.warnings;
  std::ranges::copy(further_warnings, std::back_inserter(warnings));
  header.environment.emplace_back("warnings", fmt::format("{}", fmt::join(warnings, "\n")));
  header.ranks = job.ranks;
  header.bucket_bytes.assign(bucket_bytes.begin(), bucket_bytes.end());
  return header;
}

std::optional<record::RunFile> open_run_file(const Job& job, const Invocation& invocation) {
  std::optional<record::RunFile> file;
  train::together(invocation.communicator, [&] {
    if (invocation.communicator.rank() != 0 || job.config.output.empty()) return;
    file.emplace(job.config.output, overwrite_mode(job.config), run_header(job, invocation, {}));
  });
  return file;
}

void record_measurement(const Job& job, comm::Communicator& communicator,
                        std::optional<record::RunFile>& file,
                        const std::function<record::RunStatus()>& work) {
  core::ProcessorMeter meter;
  meter.begin_interval();
  record::RunStatus status{};
  try {
    status = work();
  } catch (const core::Error& error) {
    if (file) file->finish_failed(error.what());
    throw;
  }
  if (job.config.device.kind != backend::DeviceKind::cuda) {
    const double own = std::fmax(-1, meter.interval().lacking_share());  // -1: unknown
    const double share = comm::maximum(communicator, own);
    if (file && share >= 0) file->write_result("lacking_processor_share", share);
    if (communicator.rank() == 0 && share >= core::lacking_limit) {
      core::log_warning(fmt::format(
          "a rank lacked a processor for {} % of the time (other processes, more threads than "
          "processors, a CPU quota, or a hypervisor): the measured times do not describe the "
          "program; repeat the run on idle processors",
          core::format_fixed(100 * share, 1)));
    }
  }
  if (file) file->finish(status);
}

record::OverwriteMode overwrite_mode(const train::Config& config) {
  return config.overwrite ? record::OverwriteMode::replace : record::OverwriteMode::refuse;
}

void check_output(const train::Config& config, comm::Communicator& communicator) {
  train::together(communicator, [&] {
    if (communicator.rank() != 0) return;
    if (!config.output.empty() && config.checkpoint.resume != "none")
      record::check_writable_beside(config.output);
    else if (!config.output.empty())
      record::check_writable(config.output, overwrite_mode(config));
    if (!config.trace.empty())
      record::check_writable(config.trace, overwrite_mode(config), record::OutputKind::trace);
  });
}

}  // namespace lockstep::app
