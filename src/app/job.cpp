// SPDX-License-Identifier: BSD-3-Clause
#include "job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "guard/early_stop.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "lockstep/core/process/limits.hpp"
#include "lockstep/core/process/openmp.hpp"
#include "lockstep/core/process/processors.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/graph/operations/max_pool.hpp"
#include "lockstep/record/output_file.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/study/memory.hpp"
#include "lockstep/study/roofline.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"
#include "options/option_table.hpp"
#include "shares.hpp"

namespace lockstep::app {

namespace {

/// Warns if a processor trains more slowly in bfloat16 than in float32, unless the algorithm of the
/// convolutions is named. Collective: all ranks must call this.
void check_precision(Job& job) {
  const train::Config& config = job.options.training;
  if (config.device.kind != backend::DeviceKind::cpu ||
      config.plan.precision == core::Precision::fp32 ||
      config.plan.convolution_algorithm != backend::ConvolutionAlgorithm::automatic)
    return;
  constexpr double tolerance = 1.05;
  core::begin_activity(job.monitor, core::Activity::timing_precisions);
  const std::int64_t images = study::timed_batch(config.batch_per_rank, config.device.threads);
  double time = 0;
  train::together(job.communicator, [&] {
    time =
        study::relative_step_time(train::training_options(config, images), job.graph, *job.backend);
  });
  if (time <= tolerance) return;
  add_warning(
      job,
      fmt::format("{0} is slower than fp32 on this processor: a step of {1} with {2} images takes "
                  "{3:.2f} times as long; try --precision fp32",
                  core::name(config.plan.precision), job.options.network.model, images, time));
}

/// Warns if ranks share a GPU although that is allowed. If it is not, the transport of gradients
/// reports the error; stages have none in common, so the error is reported here. Collective.
void check_gpu_sharing(Job& job) {
  const std::string shared = shared_gpu(job.ranks);
  const train::Config& config = job.options.training;
  if (config.transport.allow_sharing) return add_warning(job, shared);
  const bool has_stages = config.pipeline.stages > 1 || job.options.command == "stack";
  if (shared.empty() || !has_stages) return;
  comm::fail_together(job.communicator, core::ExitStatus::usage,
                      shared + ", or use --allow-gpu-sharing for a test");
}

/// Replaces the processors in `job.ranks` by the devices that compute, if these are other devices.
/// Collective: all ranks must call this.
void name_devices(Job& job) {
  const auto device = job.backend->device().identity();
  record::RankInfo own = job.ranks.at(static_cast<std::size_t>(job.communicator.rank()));
  if (device) {
    own.device_name = device->name;
    own.device_uuid = device->uuid;
    own.pci_bus_id = device->pci_bus_id;
    own.memory_bytes = device->memory_bytes;
  }
  job.ranks = comm::all_gather(job.communicator, own);
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
void share_processors(Job& job) {
  const int rank = job.communicator.rank();
  const std::vector<core::Limit> quotas = core::processor_quotas();
  const Domains domains = gather_domains(job.communicator, quotas);
  backend::DeviceOptions& device = job.options.training.device;
  device.build_threads = compiler_threads(job.ranks, rank, quotas, domains);
  if (device.threads == 0) {
    const ThreadCount count = default_threads(
        job.ranks, rank,
        {core::openmp_requested_threads(), core::openmp_thread_limit(), quotas, domains});
    device.threads = count.threads;
    job.threads_reason = count.reason;
  }
  train::together(job.communicator, [&] {
    // Each parallel loop waits for all threads: with more of them, a step takes minutes.
    const record::RankInfo& own = job.ranks.at(static_cast<std::size_t>(rank));
    const auto processors = static_cast<int>(core::processors_in(own.cpu_list).size());
    if (processors == 0 || device.threads <= 32 * processors) return;
    core::fail(core::ExitStatus::usage,
               fmt::format("--threads {}: too many for the {} processor(s) of the rank; use at "
                           "most {}, or leave it out for one thread per physical core",
                           device.threads, processors, 32 * processors));
  });
  const std::vector<int> threads = comm::all_gather(job.communicator, device.threads);
  add_warning(job, oversubscription(job.ranks, threads));
  add_warning(job, first_text(job.communicator, exceeded_quota(quotas, domains, threads)));
  if (device.kind != backend::DeviceKind::cpu) return;
  const bool is_bound = core::openmp_binds_threads();
  add_warning(job, common_places(job.ranks, comm::all_gather(job.communicator, is_bound)));
  if (is_bound || job.options.process.binding == Binding::none) return;
  const auto share = share_of_processors(job.ranks, threads, rank, core::core_of);
  if (share.empty() || !core::bind_to(share)) return;
  const record::RankInfo bound = record::describe_process();
  record::RankInfo& own = job.ranks.at(static_cast<std::size_t>(rank));
  own.cpu_list = bound.cpu_list;  // the other ranks learn it when the devices are named
  own.core_list = bound.core_list;
}

/// Returns the name of the engine log of a rank; empty if none is to be written.
std::string engine_log(const backend::DeviceOptions& device, int rank) {
  if (device.engine_log.empty() || rank == 0) return device.engine_log;
  return fmt::format("{}.rank{}", device.engine_log, rank);
}

backend::DeviceOptions backend_options(const Job& job) {
  const train::Config& config = job.options.training;
  backend::DeviceOptions options = config.device;
  options.local_rank = job.communicator.local_rank();
  options.cache_directory = core::cache_directory();
  // By default cuDNN's batch norm leaves multiprocessors to all-reduces that overlap with it.
  const bool overlaps =
      job.communicator.size() > 1 && config.reducer.kind == comm::ReducerKind::overlap;
  if (options.batch_norm_multiprocessors < 0 && !overlaps) options.batch_norm_multiprocessors = 0;
  options.engine_log = engine_log(config.device, job.communicator.rank());
  options.progress = job.monitor;
  return options;
}

/// Throws if an output of this rank is another output, also `standard`, or an input, or would
/// replace an existing file of another kind.
void require_outputs(const Options& options, int rank, const StandardOutput& standard) {
  const train::Config& config = options.training;
  using record::OutputKind;
  std::vector<record::OutputFile> outputs;
  std::vector<record::NamedFile> inputs;
  const auto add = [&](std::string_view option, const std::string& path, OutputKind kind) {
    if (!path.empty()) outputs.push_back({{option, path}, kind});
  };
  if (rank == 0) {
    add("--trace", options.profile.trace, OutputKind::trace);
    add("--output", options.output.run_file, OutputKind::run_file);
  }
  add("--engine-log", engine_log(config.device, rank), OutputKind::engine_log);
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

graph::Graph make_graph(graph::NetworkOptions& network, const data::DatasetInfo& dataset) {
  if (network.classes == 0) network.classes = dataset.classes;
  if (network.classes < dataset.classes) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--classes {}: the dataset has {} classes; use at least as many",
                           network.classes, dataset.classes));
  }
  graph::Graph graph = graph::make_model(
      network.model, {.classes = network.classes,
                      .image = dataset.image,
                      .label_smoothing = static_cast<float>(network.label_smoothing),
                      .swap_relu_pool = network.swap_relu_pool});
  const auto is_pool = [](const graph::Node& node) { return node.operation.is<graph::MaxPool>(); };
  if (network.swap_relu_pool && std::ranges::none_of(graph.nodes(), is_pool)) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--swap-relu-pool: {} has no ReLU directly before a max-pool; remove "
                           "the option",
                           network.model));
  }
  return graph;
}

/// Returns the members of the object that every command prints with `--json`. `learning_rate` is
/// null if the command has no global batch, on which it could depend.
nlohmann::json describe_job(const Job& job) {
  const train::Config& config = job.options.training;
  nlohmann::json options = nlohmann::json::object();
  for (const auto& [name, value] : entries(job.options)) options[name] = value;
  nlohmann::json ranks = nlohmann::json::array();
  for (const auto& rank : job.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"local_rank", rank.local_rank},
                     {"host", rank.host},
                     {"hostname", rank.hostname},
                     {"cpu_list", rank.cpu_list},
                     {"device_name", rank.device_name}});
  }
  return {{"command", job.options.command},
          {"build", record::build_id()},
          {"device_library", job.backend->device().library_versions()},
          {"config", options},
          {"learning_rate", config.global_batch > 0
                                ? nlohmann::json(config.optimiser.peak(config.global_batch))
                                : nlohmann::json()},
          {"parameters", job.graph.parameter_count()},
          {"ranks", ranks}};
}

}  // namespace

data::DataOptions data_options(const Job& job) {
  data::DataOptions options = train::data_options(job.options.training);
  options.progress = job.monitor;
  return options;
}

void add_warning(Job& job, const std::string& warning) {
  if (warning.empty()) return;
  job.warnings.push_back(warning);
  if (job.is_first) core::log_warning(warning);
}

Job::Job(const Invocation& invoked)
    : invocation(invoked), process_bytes(core::resident_memory().now), options(invoked.options) {
  train::Config& config = options.training;
  core::begin_activity(monitor, core::Activity::opening_device);
  record::RankInfo own = record::describe_process();
  own.rank = communicator.rank();
  own.local_rank = communicator.local_rank();
  own.host = communicator.host();
  ranks = comm::all_gather(communicator, own);
  train::together(communicator, [&] {
    options = resolve(options, communicator.size());
    config = train::resolve_device(config);
  });
  share_processors(*this);
  train::together(communicator, [&] {
    if (config.device.kind == backend::DeviceKind::cpu)
      core::start_openmp_threads(config.device.threads);
    require_outputs(options, communicator.rank(), invocation.output);
    backend = invocation.make_backend(backend_options(*this));
    sizes = data::sizes(data_options(*this));
    config.data.train_samples = static_cast<std::int64_t>(sizes.train);
    config.data.test_samples = static_cast<std::int64_t>(sizes.test);
    graph = make_graph(options.network, sizes.info);
    train::require_enough_images(config, sizes.train);
  });
  add_warning(*this, sizes.info.warning);
  name_devices(*this);
  check_gpu_sharing(*this);
  if (options.command == "train" || options.command == "plan") check_precision(*this);
  end_if_signalled(invocation.stopped, communicator);
}

study::MemoryLimit memory_limit(const Job& job) {
  const std::uint64_t given = job.options.process.memory_limit;
  if (given > 0) return {given, "--memory-limit", true};
  const std::vector<core::Limit> limits = core::memory_limits();
  const Domains domains = gather_domains(job.communicator, limits);
  study::MemoryLimit own;
  train::together(job.communicator, [&] {
    if (const auto bytes = job.backend->device().available_memory()) {
      own = {*bytes, "free memory of the device"};
    } else if (!limits.empty()) {
      const core::Limit share = core::smallest_share(limits, domains);
      // The memory that this process has already taken is not free, but it is part of its share.
      own = {static_cast<std::uint64_t>(share.value) + core::resident_memory().now, share.source};
    }
  });
  const std::uint64_t least = comm::minimum(job.communicator, own.bytes);
  return {least, first_text(job.communicator, own.bytes <= least ? own.source : "")};
}

study::MemoryEstimate estimate_memory(const Job& job, study::MemoryDetail detail,
                                      const train::Pipeline* pipeline) {
  comm::Communicator& replicas = pipeline != nullptr ? *pipeline->replicas : job.communicator;
  core::begin_activity(job.monitor, core::Activity::planning);
  study::MemoryEstimate memory;
  train::together(job.communicator, [&] {
    memory = study::estimate_memory(
        job.options.training, pipeline != nullptr ? pipeline->graph() : job.graph, *job.backend,
        job.sizes, {replicas.size(), replicas.local_size()}, job.process_bytes, detail, pipeline);
  });
  end_if_signalled(job.invocation.stopped, job.communicator);
  return memory;
}

record::RunHeader run_header(const Job& job, std::span<const std::string> further_warnings) {
  record::RunHeader header;
  header.command_line = job.invocation.command_line;
  header.config = entries(job.options);
  header.environment = record::provenance();
  header.environment.emplace_back("mpi_version", job.communicator.library_version());
  header.environment.emplace_back("device_library", job.backend->device().library_versions());
  std::vector<std::string> warnings = job.warnings;
  std::ranges::copy(further_warnings, std::back_inserter(warnings));
  header.environment.emplace_back("warnings", fmt::format("{}", fmt::join(warnings, "\n")));
  header.ranks = job.ranks;
  return header;
}

std::optional<record::RunFile> open_run_file(const Job& job) {
  std::optional<record::RunFile> file;
  train::together(job.communicator, [&] {
    const OutputOptions& output = job.options.output;
    if (!job.is_first || output.run_file.empty()) return;
    file.emplace(output.run_file, overwrite_mode(output), run_header(job));
  });
  return file;
}

void record_measurement(const Job& job, std::optional<record::RunFile>& file,
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
  if (job.options.training.device.kind != backend::DeviceKind::cuda) {
    const double own = std::fmax(-1, meter.interval().lacking_share());  // -1: unknown
    const double share = comm::maximum(job.communicator, own);
    if (file && share >= 0) file->write_result("lacking_processor_share", share);
    if (job.is_first && share >= core::lacking_limit) {
      core::log_warning(fmt::format(
          "a rank lacked a processor for {} % of the time (other processes, more threads than "
          "processors, a CPU quota, or a hypervisor): the measured times do not describe the "
          "program; repeat the run on idle processors",
          core::format_fixed(100 * share, 1)));
    }
  }
  if (file) file->finish(status);
}

record::OverwriteMode overwrite_mode(const OutputOptions& options) {
  return options.overwrite ? record::OverwriteMode::replace : record::OverwriteMode::refuse;
}

void check_output(const Job& job) {
  train::together(job.communicator, [&] {
    if (!job.is_first) return;
    const OutputOptions& output = job.options.output;
    const std::string& trace = job.options.profile.trace;
    const bool resumes = job.options.training.checkpoint.resume != "none";
    if (!output.run_file.empty() && resumes)
      record::check_writable_beside(output.run_file);
    else if (!output.run_file.empty())
      record::check_writable(output.run_file, overwrite_mode(output));
    if (!trace.empty())
      record::check_writable(trace, overwrite_mode(output), record::OutputKind::trace);
  });
}

void print_json(Job& job, const nlohmann::json& results) {
  if (!job.is_first || !job.options.output.json) return;
  nlohmann::json json = describe_job(job);
  json.update(results);
  // Names of hosts and files need not be valid UTF-8.
  job.invocation.output.write(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
                              "\n");
}

core::ExitStatus end_dry_run(Job& job) {
  job.console.print("All checks passed; --dry-run stops before the first step.\n");
  print_json(job, nlohmann::json::object());
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
