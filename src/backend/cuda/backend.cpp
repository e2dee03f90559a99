// SPDX-License-Identifier: BSD-3-Clause
#include "backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "device/description.hpp"
#include "device/kernel_stopwatch.hpp"
#include "dnn/convolution_graphs.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/openmp.hpp"
#include "plan.hpp"
#include "state.hpp"

namespace lockstep::backend::cuda {

namespace {

void require_dnn() { core::require_library("cuDNN", cudnnGetVersion(), LOCKSTEP_OLDEST_CUDNN); }

Target open_target(const DeviceOptions& options) {
  if (!options.target_gpu.empty()) {
    open_planning_driver();
    require_dnn();
    return Target::description(options.target_gpu);
  }
  const int devices = device_count();
  if (devices == 0) describe_device(0);  // throws; its message states what is missing
  require_dnn();
  return Target::device(options.local_rank % devices);
}

/// Returns the shortest of several measured execution times of `work` on the stream, in seconds.
template <class Work>
double seconds_of(cudaStream_t stream, Work&& work) {
  constexpr int runs = 10;
  const core::Event begin = core::make_event(core::EventUse::timing);
  const core::Event end = core::make_event(core::EventUse::timing);
  double shortest = 1e9;
  for (int run = 0; run < runs; ++run) {
    check_cuda(cudaEventRecord(begin.get(), stream), "timing");
    work();
    check_cuda(cudaEventRecord(end.get(), stream), "timing");
    check_cuda(cudaEventSynchronize(end.get()), "timing");
    shortest = std::min(shortest, seconds_between(begin, end));
  }
  return shortest;
}

/// Engines that are planned for a target GPU are not timed, so they are not stored.
EngineCache make_engine_cache(const Target& target, const std::filesystem::path& directory) {
  if (!target.is_present() || directory.empty()) return EngineCache();
  return EngineCache(directory / "engines.json");
}

/// Returns the number of threads that build engines. `count`: 0 for all processors.
int build_threads(int count) {
  // Each thread has a cuDNN handle and a compiler; a plan has about 50 graphs with such engines.
  constexpr int most = 64;
  if (count == 0) count = static_cast<int>(core::thread_processors().size());
  return std::clamp(count, 1, most);
}

/// Returns the number of multiprocessors for batch norm; 0: all. Throws `Error` (usage) if the GPU
/// has fewer than `count`.
int batch_norm_multiprocessors(int count, const DeviceInfo& device) {
  constexpr int left_to_all_reduces = 16;
  if (count < 0) return std::max(0, device.multiprocessors - left_to_all_reduces);
  if (count <= device.multiprocessors) return count;
  core::fail(core::ExitStatus::usage,
             fmt::format("--batch-norm-sms {}: the {} has {} multiprocessors; give a number from 0 "
                         "to {}",
                         count, device.name, device.multiprocessors, device.multiprocessors));
}

}  // namespace

Gpu::Gpu(const DeviceOptions& options) : target_(open_target(options)) {
  if (target_.is_present()) sensors_ = std::make_unique<Sensors>(target_.info().pci_bus_id);
}

core::DeviceQueue Gpu::queue() const {
  return {target_.index(), target_.stream(), target_.info().uuid};
}

std::string Gpu::name() const {
  return target_.is_present() ? target_.info().name
                              : target_.info().name + " (target GPU, not present)";
}

std::string Gpu::library_versions() const {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  const std::size_t dnn = cudnnGetVersion();
  return fmt::format("CUDA {}.{} (driver {}.{}), cuDNN {}.{}.{}, compute capability {}",
                     runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10,
                     dnn / 10000, dnn % 10000 / 100, dnn % 100, target_.info().capability());
}

void Gpu::require_presence(std::string_view what) const {
  if (target_.is_present()) return;
  core::fail(
      core::ExitStatus::usage,
      fmt::format("{} requires the GPU: the {} is not present; only 'lockstep plan --for' works "
                  "with its description",
                  what, target_.info().name));
}

std::optional<std::uint64_t> Gpu::available_memory() const {
  if (!target_.is_present()) return target_.info().total_memory;
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for the GPU's free memory");
  return free;
}

std::optional<DeviceIdentity> Gpu::identity() const {
  if (!target_.is_present()) return std::nullopt;
  const DeviceInfo& info = target_.info();
  return DeviceIdentity{info.name, info.uuid, info.pci_bus_id, info.total_memory};
}

std::string Gpu::description() const {
  if (target_.is_present()) return read_description(target_.index());
  return std::string(target_.description());
}

SensorReading Gpu::read_sensors() const {
  return sensors_ != nullptr ? sensors_->read() : SensorReading{};
}

CudaBackend::CudaBackend(const DeviceOptions& options)
    : gpu_(options),
      planner_(
          target(),
          {.deterministic = options.deterministic,
           .progress = options.progress,
           .selection = options.engines,
           .build_threads = build_threads(options.build_threads),
           .total_seconds = options.engine_seconds,
           .batch_norm_multiprocessors =
               batch_norm_multiprocessors(options.batch_norm_multiprocessors, target().info())},
          make_engine_cache(target(), options.cache_directory), EngineLog(options.engine_log)) {}

PlanOptions CudaBackend::with_progress(PlanOptions options) const {
  options.progress = planner_.rules().progress;
  return options;
}

ModelState CudaBackend::make_state(const graph::Graph& graph, optim::Kind optimiser) const {
  return make_state(graph, optimiser,
                    core::device_buffer(graph.parameter_elements() * sizeof(float), "gradients"));
}

ModelState CudaBackend::make_state(const graph::Graph& graph, optim::Kind optimiser,
                                   core::Buffer gradients) const {
  gpu_.require_presence("training");
  const std::size_t bytes = graph.parameter_elements() * sizeof(float);
  ModelState state{core::Buffer(bytes), core::Buffer(bytes), core::Buffer(bytes),
                   core::Buffer(graph.statistic_elements() * sizeof(float))};
  if (optimiser == optim::Kind::adamw) state.second_moment = core::Buffer(bytes);
  state.device =
      std::make_shared<CudaState>(graph, optimiser, std::move(gradients), target().stream());
  return state;
}

core::GradientArray CudaBackend::gradients(const ModelState& state, core::DataType type) const {
  const CudaState& device = CudaState::of(state);
  return {device.gradients(), device.elements(), type};
}

core::GradientArray CudaBackend::parameters(const ModelState& state) const {
  const CudaState& device = CudaState::of(state);
  return {reinterpret_cast<std::byte*>(device.parameters()), device.elements(),
          core::DataType::float32};
}

std::uint64_t CudaBackend::parameter_hash(const ModelState& state) const {
  return CudaState::of(state).parameter_hash();
}

void CudaBackend::fetch(ModelState& state, StatePart part) const {
  CudaState::of(state).fetch(state, part);
}

void CudaBackend::store(const ModelState& state, StatePart part) const {
  CudaState::of(state).store(state, part);
}

std::unique_ptr<Plan> CudaBackend::compile(const graph::Graph& graph, ModelState& state,
                                           const PlanOptions& options) const {
  gpu_.require_presence("training");
  build_engines(graph, options);
  auto plan = std::make_unique<CudaPlan>(graph, state, with_progress(options), planner_);
  end_selection();
  return plan;
}

/// Builds the engines of all graphs that the plan may need together.
void CudaBackend::build_engines(const graph::Graph& graph, const PlanOptions& options) const {
  if (!planner_.is_timing()) return;
  DnnPlanner requests(target(), planner_.rules(), EngineCache(), {}, Planning::requests);
  CudaOperations operations(graph, with_progress(options), requests);
  const Blueprint blueprint(operations);
  planner_.build_engines(requests.requests());
}

void CudaBackend::end_selection() const {
  planner_.release_engines();
  if (cut_off_selections() == std::exchange(reported_cut_off_, cut_off_selections())) return;
  core::log_warning(
      fmt::format("--engine-seconds was reached before {} kernel selections were complete: they "
                  "use the best kernel found so far, and the next run selects them again",
                  cut_off_selections()));
}

Ceilings CudaBackend::ceilings(core::Precision precision) const {
  gpu_.require_presence("measuring");
  // A 1x1 convolution is a matrix product: (pixels, channels) by (channels, channels).
  constexpr ConvolutionShape product{.images = 8,
                                     .in_channels = 4096,
                                     .in_height = 32,
                                     .in_width = 32,
                                     .out_channels = 4096,
                                     .kernel = 1};
  constexpr std::int64_t pixels = product.images * product.in_height * product.in_width;
  constexpr std::size_t copy_bytes = std::size_t{1} << 30;
  const auto graph = convolution_forward(planner_, product, precision);
  const core::DataType type = element_type(precision, target().info());
  const std::size_t element = core::size_of(type);
  const auto map_bytes = static_cast<std::size_t>(pixels * product.in_channels) * element;
  const auto weight_bytes =
      static_cast<std::size_t>(product.in_channels * product.out_channels) * element;
  // No zeros, because products of zeros run faster than others.
  const core::Buffer from = random_buffer(copy_bytes, type),
                     to = core::device_buffer(copy_bytes, "measuring"),
                     workspace = core::device_buffer(graph->workspace_bytes(), "measuring");
  core::check(map_bytes + weight_bytes <= copy_bytes, "a product fits the copies' memory");
  const std::array bindings{Binding{convolution_tensor::x, from.data()},
                            Binding{convolution_tensor::weights, from.data() + map_bytes},
                            Binding{convolution_tensor::y, to.data()}};
  const double product_seconds =
      seconds_of(target().stream(), [&] { graph->run(bindings, workspace.data()); });
  const double copy_seconds = seconds_of(target().stream(), [&] {
    check_cuda(cudaMemcpyAsync(to.data(), from.data(), copy_bytes, cudaMemcpyDeviceToDevice,
                               target().stream()),
               "measuring");
  });
  return {.flops_per_second = 2.0 * static_cast<double>(pixels) * product.in_channels *
                              product.out_channels / product_seconds,
          .bytes_per_second = 2.0 * static_cast<double>(copy_bytes) / copy_seconds,
          .product = fmt::format("{}x{}x{} in {}", pixels, product.in_channels,
                                 product.out_channels, core::name(precision))};
}

MemoryUse CudaBackend::memory(const graph::Graph& graph, const PlanOptions& options) const {
  build_engines(graph, options);
  CudaOperations operations(graph, with_progress(options), planner_);
  const MemoryUse use = memory_of(Blueprint(operations), operations);
  end_selection();
  return use;
}

MemoryUse CudaBackend::least_memory(const graph::Graph& graph, const PlanOptions& options) const {
  DnnPlanner sizes(target(), planner_.rules(), EngineCache(), {}, Planning::sizes_only);
  CudaOperations operations(graph, options, sizes);
  const Blueprint blueprint(operations);
  MemoryUse use = memory_of(blueprint, operations);
  use.workspace -= workspace_bytes(blueprint, operations);  // unknown without engines
  return use;
}

std::vector<OperationChoice> CudaBackend::choices(const graph::Graph& graph,
                                                  const PlanOptions& options) const {
  build_engines(graph, options);
  CudaOperations operations(graph, with_progress(options), planner_);
  std::vector<OperationChoice> choices = Blueprint(operations).choices();
  end_selection();
  return choices;
}

}  // namespace lockstep::backend::cuda
