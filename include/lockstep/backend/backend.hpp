#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/backend/sensors.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/crop_flip.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/device_queue.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/optim/sgd.hpp"

namespace lockstep::backend {

enum class DeviceKind {
  automatic,  ///< cuda where there is a GPU that can be used, else cpu
  reference,
  cpu,
  cuda
};
std::string_view name(DeviceKind kind);

enum class Mode {
  training,   ///< batch statistics, backward possible
  inference,  ///< running statistics, forward only
};

/// Algorithm of convolutions on CPUs. `automatic` chooses for each convolution and direction; the
/// others are used wherever they exist, and oneDNN's direct kernels (`direct`) elsewhere.
enum class ConvolutionAlgorithm { automatic, direct, winograd, amx };
std::string_view name(ConvolutionAlgorithm algorithm);

/// What of a batch norm the convolutions around it compute on a GPU: `sums` where its input is
/// written, `prologue` also its output, where that is read, so that it need not be in memory.
/// `automatic` takes what is fastest for each layer by timing, the others are taken wherever the
/// library has them.
enum class BatchNormFusion { automatic, none, sums, prologue };
std::string_view name(BatchNormFusion fusion);

/// normalised = (pixel / 255 - mean) / standard_deviation, per channel. Channels beyond the third
/// repeat the last values.
struct Normalisation {
  std::array<float, 3> mean{0.4914f, 0.4822f, 0.4465f};
  std::array<float, 3> standard_deviation{0.2023f, 0.1994f, 0.2010f};
};

/// Hears of each operation of a plan when it has ended, for measuring.
class OperationListener {
 public:
  virtual ~OperationListener() = default;
  /// `node`: the operation's first node. `phase`: as in `OperationChoice`, or "backward" where
  /// gradients of inputs and parameters are computed together.
  virtual void ended(graph::NodeId node, std::string_view phase) = 0;
};

struct PlanOptions {
  std::int64_t batch = 0;  ///< images per step of this replica
  core::Precision precision = core::Precision::fp32;
  Mode mode = Mode::training;
  ConvolutionAlgorithm convolution_algorithm = ConvolutionAlgorithm::automatic;
  BatchNormFusion batch_norm_fusion = BatchNormFusion::automatic;
  Normalisation normalisation{};
  core::StatisticsSum* batch_norm_sum =
      nullptr;  ///< batch norm over all replicas; null: over this one's batch
  OperationListener* listener = nullptr;
  core::DataType gradient_type = core::DataType::float32;  ///< of the state's flat gradients
  /// Elements after which a backward pass makes gradients final, at least, where it pays to do so
  /// in portions; updates begin and end at multiples of it. 0: all together.
  std::size_t gradient_portion = 0;
  double loss_scale = 0;  ///< of fp16; 0: found while training
  /// Receives progress after each operation that is prepared or run; null: nobody does. A backend
  /// fills it in from its `DeviceOptions`.
  core::ProgressMonitor* progress = nullptr;
};

/// A state's memory on a device of its own.
class DeviceState {
 public:
  virtual ~DeviceState() = default;
};

/// The values of a replica: flat float32 buffers in the graph's layout. It outlives the plans
/// compiled on it. Where the device has memory of its own, these are the host's copies, as of the
/// last `Backend::fetch` or `store`.
struct ModelState {
  core::Buffer parameters;
  core::Buffer gradients;
  core::Buffer momentum;
  core::Buffer statistics;
  std::int64_t batches_tracked = 0;       ///< training batches that entered the running statistics
  std::unique_ptr<DeviceState> device{};  ///< null where the host computes
};

/// What of a state is copied between the host and a device.
enum class StatePart { all, parameters, statistics };

/// Bytes, by purpose. `state` is the ModelState's, the rest belongs to one plan.
struct MemoryUse {
  std::size_t state = 0;
  std::size_t activations = 0;  ///< feature maps and their gradients, after reuse
  std::size_t weights = 0;      ///< weights and weight gradients in the device's own layouts
  std::size_t workspace = 0;    ///< scratch of the operations

  std::size_t plan() const { return activations + weights + workspace; }
  std::size_t total() const { return state + plan(); }
};

/// Summed over the images of one batch.
struct BatchResult {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t images = 0;
};

/// How one node's operation will be computed.
struct OperationChoice {
  graph::NodeId node = -1;
  std::string phase;           ///< "forward", "backward data", "backward weights"
  std::string implementation;  ///< the library's name for its kernel, or ours
  double arithmetic = 1;       ///< multiplications, relative to the node's FLOPs
};

/// The dynamic loss scale of fp16 training, which the steps change.
struct LossScale {
  float scale = 1;
  std::int32_t good_steps = 0;  ///< steps since the scale last changed or a step was skipped
};

/// A graph compiled for one batch size, precision and mode on one device. All memory is taken in
/// the constructor; the functions below allocate nothing.
class Plan {
 public:
  virtual ~Plan() = default;
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Takes a batch: images (n, channels, height, width) uint8, labels (n) in [0, classes). n <=
  /// batch; in training n == batch.
  virtual void upload(std::span<const std::uint8_t> images,
                      std::span<const std::int32_t> labels) = 0;

  /// Keeps a data set in the device's memory: images (size, channels, height, width), labels (size)
  /// in [0, classes). Throws `Error`: usage where the device works in the host's memory,
  /// out_of_memory where it does not fit.
  virtual void keep(std::span<const std::uint8_t> images, std::span<const std::uint8_t> labels);

  /// Takes a batch of kept images: which (n), and how each is cropped (n).
  virtual void upload_kept(std::span<const std::int32_t> samples,
                           std::span<const core::CropFlip> crops);

  /// From the uploaded batch to the loss. In training the running statistics move by one batch.
  /// Collective over replicas where `batch_norm_sum` is set.
  virtual void forward() = 0;

  /// Loss and hits of the last forward pass.
  virtual BatchResult result() const = 0;

  /// The last forward pass's class scores, (batch, classes).
  virtual std::span<const float> logits() const = 0;

  /// Gradients of the mean loss over this replica's batch into state.gradients (overwritten),
  /// telling `listener` after every operation how much of it is final. Training only, after
  /// `forward`. Collective over replicas where `batch_norm_sum` is set.
  virtual void backward(core::GradientListener& listener) = 0;

  /// Coefficients of the updates from now on.
  virtual void set_sgd(const optim::Sgd& sgd) = 0;

  /// One pass of SGD over `count` parameters from `first` on, in the flat layout, from their
  /// gradients. All of them are updated once per step, from the front.
  virtual void update(std::size_t first, std::size_t count) = 0;

  /// Returns the loss scale after the steps that were collected; nothing if it is constant.
  virtual std::optional<LossScale> loss_scale() const { return std::nullopt; }

  /// Continues with that loss scale, as read by `loss_scale` of an equal plan. No effect if the
  /// scale is constant.
  virtual void set_loss_scale(const LossScale&) {}

  virtual MemoryUse memory() const = 0;
  virtual std::vector<OperationChoice> choices() const = 0;
};

/// Highest measured rates of a device; 0 if it was not measured.
struct Ceilings {
  double flops_per_second = 0;  ///< of the fastest matrix product; a multiply-add counts as two
  double bytes_per_second = 0;  ///< of a copy that fits in no cache; bytes read and written
  std::string product;          ///< the product: "1024x1024x1024 in fp32"
};

/// Seconds of a step with marks of a timeline in it and without, medians of a trial before the
/// training: what the clock costs. 0 where it was not measured.
struct ClockCost {
  double with_marks = 0;
  double without_marks = 0;
};

/// Runs a training step's work again and again, several steps deep where the device works on its
/// own. A step is `begin`, `upload` of the plan with marks around it, `run`; later `collect`.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  /// The marks of the step between `begin` and `run`; after `collect`, of the step collected.
  virtual core::Timeline& timeline() = 0;

  /// `body` queues everything between the upload and the step's end: the same work every time.
  /// Where `is_recordable` and the device can, it is recorded and then replayed. `body` may be run
  /// here some times, which changes the state: `Backend::store` must follow. `check` is called
  /// again and again while the device is waited for; it throws to end the wait.
  virtual void record(std::function<void()> body, bool is_recordable,
                      std::function<void()> check) = 0;

  virtual void begin() = 0;
  virtual void run() = 0;

  /// Waits for the oldest step that was run and not yet collected.
  virtual BatchResult collect() = 0;

  /// So many steps should be under way at once; 1 where `run` returns when all is done.
  virtual int depth() const { return 1; }
  virtual ClockCost clock_cost() const { return {}; }
};

/// A device beside the processor, as others know it.
struct DeviceIdentity {
  std::string name;
  std::string uuid;
  std::string pci_bus_id;
  std::uint64_t memory_bytes = 0;
};

/// A device that compiles graphs into plans. One of these and `make_backend` is all the rest of the
/// program knows of CPU or GPU.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual DeviceKind kind() const = 0;
  virtual std::string device_name() const = 0;       ///< the processor's or GPU's model name
  virtual std::string library_versions() const = 0;  ///< "oneDNN 2.6.3 (avx2)"

  /// Zeroed flat buffers for the graph; statistics and parameters still to be initialised or
  /// loaded.
  virtual ModelState make_state(const graph::Graph& graph) const {
    return make_state(graph, core::Buffer(graph.parameter_elements() * sizeof(float)));
  }
  /// The same with gradients in memory of the device that the caller chose: what sums them may know
  /// better where. Its length is that of the flat parameters in `gradient_type`.
  virtual ModelState make_state(const graph::Graph& graph, core::Buffer gradients) const = 0;

  /// The type of the device's flat gradients where they travel as `wire`.
  virtual core::DataType gradient_type(core::DataType) const { return core::DataType::float32; }

  /// The flat gradients where the device has them.
  virtual core::GradientArray gradients(const ModelState& state, core::DataType type) const;

  /// Brings what the device has changed to the host's copies, and what the host has changed to the
  /// device. Nothing where they are the same.
  virtual void fetch(ModelState&, StatePart) const {}
  virtual void store(const ModelState&, StatePart) const {}
  void fetch(ModelState& state) const { fetch(state, StatePart::all); }
  void store(const ModelState& state) const { store(state, StatePart::all); }

  /// Where the device does its work in order.
  virtual core::DeviceQueue queue() const { return {}; }

  /// For steps of `plan`, which must outlive it.
  virtual std::unique_ptr<StepRunner> make_step_runner(Plan& plan) const;

  /// Throws `Error`: usage where this device cannot give the graph or the precision its meaning,
  /// out_of_memory where the plan does not fit.
  virtual std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                        const PlanOptions& options) const = 0;

  /// Measures the rates that operations in this precision can reach: the best of several repeats of
  /// matrix products in every data type that such operations multiply in. Takes about a second.
  virtual Ceilings ceilings(core::Precision) const { return {}; }

  /// What `make_state` and `compile` would take, without taking it.
  virtual MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const = 0;

  /// How `compile` would compute the graph, without taking memory.
  virtual std::vector<OperationChoice> choices(const graph::Graph& graph,
                                               const PlanOptions& options) const = 0;

  /// Bytes that a device with memory of its own still has for plans and states.
  virtual std::optional<std::uint64_t> memory_of_its_own() const { return std::nullopt; }

  /// Nothing where the processor itself computes, or the device is not here.
  virtual std::optional<DeviceIdentity> identity() const { return std::nullopt; }

  /// May be called at any time, also while the device works.
  virtual SensorReading read_sensors() const { return {}; }

  /// The device in the words of its library, for planning where it is not; empty where there is
  /// nothing to say.
  virtual std::string description() const { return {}; }
};

struct DeviceOptions {
  DeviceKind kind = DeviceKind::cpu;
  int threads = 1;             ///< CPU threads of this replica (>= 1)
  int local_rank = 0;          ///< which of the host's GPUs: local_rank modulo their number
  bool deterministic = false;  ///< only kernels that give the same bits every time
  std::string planned_for{};   ///< a GPU that is not here ("h200"): the backend can plan, not run
  core::ProgressMonitor* progress = nullptr;  ///< outlives the backend and its plans
};

/// The kind that `automatic` stands for on this machine; others stand for themselves.
DeviceKind resolve(DeviceKind kind);

/// The seam between devices. Throws `Error` (usage) for a device that this build or this machine
/// does not have, saying what is missing.
std::unique_ptr<Backend> make_backend(const DeviceOptions& options);
inline std::unique_ptr<Backend> make_backend(DeviceKind kind, int threads) {
  return make_backend(DeviceOptions{.kind = kind, .threads = threads});
}

}  // namespace lockstep::backend
