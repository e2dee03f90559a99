// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/backend/convolution_algorithm.hpp"
#include "lockstep/backend/device.hpp"
#include "lockstep/backend/operation_listener.hpp"
#include "lockstep/backend/step_executor.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/image.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/optim/update.hpp"

namespace lockstep::backend {

enum class Mode {
  training,   ///< batch statistics; the backward pass is available
  inference,  ///< running statistics; forward pass only
};

/// Which part of batch norm is fused into the preceding convolution on GPUs. `sums`: the
/// convolution also accumulates the batch-norm statistics of its output, in every layer for which
/// the library supports it. `automatic` times both variants for each layer and uses the faster one.
enum class BatchNormFusion { automatic, none, sums };
std::span<const core::NamedValue<BatchNormFusion>> named_values(BatchNormFusion);

/// Whether a GPU computes the weight gradients of convolutions on a second stream, beside the
/// operations that follow in the backward pass. The results are the same bits.
enum class WeightStream { on, off };
std::span<const core::NamedValue<WeightStream>> named_values(WeightStream);

/// Whether the outputs of cheap operations (normalisations) are computed again in the backward pass
/// instead of being preserved, if that reduces the memory. The results are the same bits.
enum class Recomputation { on, off };

using core::Normalisation;

/// Function that writes the images `first`, `first + 1`, ... of a dataset to `images` (n, channels,
/// height, width).
using ImageReader = std::function<void(std::size_t first, std::span<std::uint8_t> images)>;

/// Whether the flat gradients are reduced over the replicas between `Plan::backward` and
/// `Plan::update`. `over_replicas`: `backward` writes the flat gradients and `update` reads them.
/// `none`: `update` uses the gradients of the last `backward`; a device with its own memory need
/// not write them to the flat buffer, whose values are then defined after `Backend::fetch` only.
enum class GradientReduction { over_replicas, none };

struct PlanOptions {
  std::int64_t batch = 0;  ///< images per step of this replica
  core::Precision precision = core::Precision::fp32;
  Mode mode = Mode::training;
  ConvolutionAlgorithm convolution_algorithm = ConvolutionAlgorithm::automatic;
  BatchNormFusion batch_norm_fusion = BatchNormFusion::automatic;
  WeightStream weight_stream = WeightStream::on;
  Recomputation recomputation = Recomputation::on;
  Normalisation normalisation{};  ///< of the images that are uploaded
  /// All-reduce of the batch-norm statistics over all replicas; null: statistics of this replica's
  /// batch only.
  core::StatisticsAllReduce* batch_norm_sum = nullptr;
  OperationListener* listener = nullptr;
  GradientReduction gradient_reduction = GradientReduction::over_replicas;
  /// Data type of the flat gradients of the state.
  core::DataType gradient_type = core::DataType::float32;
  /// Minimum number of elements that become final together, if the device makes gradients final in
  /// portions during the backward pass. Updates begin and end at multiples of it. 0: all gradients
  /// become final together at the end.
  std::size_t gradient_portion = 0;
  double loss_scale = 0;  ///< loss scale of fp16; 0: dynamic loss scaling
  /// Maximum of the global norm of the scaled gradients; larger gradients are clipped. 0: no
  /// clipping.
  double max_gradient_norm = 0;
  optim::Kind optimiser = optim::Kind::sgd;  ///< as that of the state
  optim::VectorDecay vector_decay = optim::VectorDecay::on;
  /// Seed of the random numbers of operations. They also depend on the number of the training step
  /// (`ModelState::batches_tracked` at `upload`) and on the index of the image in the global batch.
  std::uint64_t seed = 1;
  std::int64_t first_image = 0;   ///< index of the first image of this batch in the global batch
  std::int64_t image_stride = 1;  ///< distance of consecutive images in the global batch
  /// Notified after each operation that is prepared or executed; may be null. Backends set it from
  /// their `DeviceOptions`.
  core::ProgressMonitor* progress = nullptr;

  /// Returns the index in the global batch of an image of this batch.
  std::int64_t global_image(std::int64_t image) const { return first_image + image * image_stride; }
  /// Returns the bytes of a state that has `elements` parameters, except gradients and statistics.
  std::size_t parameter_bytes(std::size_t elements) const {
    const bool has_second_moment = optimiser == optim::Kind::adamw;
    return elements * sizeof(float) * (has_second_moment ? 3 : 2);
  }
};

/// Part of a state that is copied between the host and a device.
enum class StatePart { all, statistics };

/// The values of a replica: flat float32 buffers in the layout of the graph. A state must outlive
/// the plans that were compiled for it. If the device has its own memory, these buffers are the
/// copies in host memory, as of the last `Backend::fetch` or `store`.
struct ModelState {
  core::Buffer parameters;
  core::Buffer gradients;
  core::Buffer momentum;
  core::Buffer statistics;
  core::Buffer second_moment{};      ///< of the gradients, for AdamW; otherwise empty
  std::int64_t batches_tracked = 0;  ///< number of training batches in the running statistics
  std::shared_ptr<void> device{};    ///< memory of the device; null if the device uses host memory
};

/// Memory use in bytes, by purpose. `state` belongs to the ModelState, the rest to one plan.
struct MemoryUse {
  std::size_t state = 0;
  std::size_t activations = 0;  ///< feature maps and their gradients, after memory reuse
  std::size_t weights = 0;      ///< weights and weight gradients in the layouts of the device
  std::size_t workspace = 0;    ///< temporary memory of the operations

  std::size_t plan() const { return activations + weights + workspace; }
  std::size_t total() const { return state + plan(); }
};

/// Implementation that was chosen for one phase of a node.
struct OperationChoice {
  graph::NodeId node = -1;
  std::string phase;  ///< "forward", "backward data", "backward weights", `recompute_phase`
  std::string implementation;  ///< name of the kernel: that of its library, or our own
  double arithmetic = 1;       ///< multiplications, relative to the FLOPs of the node
  /// Number of feature maps of the size of the output that are read or written, each once per pass
  /// over it, if the number depends on the implementation (batch norm).
  std::optional<double> maps{};
};

/// State of dynamic loss scaling in fp16 training; the training steps update it.
struct LossScale {
  float scale = 1;
  std::int32_t good_steps = 0;  ///< steps since the scale was changed or a step was skipped
  std::int32_t skipped = 0;     ///< steps of the run that were skipped
};

/// Sums of the flat gradients of a state over several backward passes, float32 in the memory of the
/// device. The functions queue their work on the device in the order of the plans of the state.
class GradientSums {
 public:
  virtual ~GradientSums() = default;
  GradientSums() = default;
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  /// Sets all sums to 0.
  virtual void clear() = 0;
  /// Adds the flat gradients of the state to the sums.
  virtual void add_gradients() = 0;
  /// Adds `count` sums from index `first` on, in the flat layout, to the gradients of the state.
  virtual void add_to_gradients(std::size_t first, std::size_t count) = 0;
};

/// Ability of a plan: a dataset in the memory of the device.
class DeviceDataset {
 public:
  /// Loads the images that `read` returns and their `labels` (size) in [0, classes). Throws `Error`
  /// (out_of_memory) if the dataset does not fit, and the errors of `read`.
  virtual void load_dataset(std::span<const std::int32_t> labels, const ImageReader& read) = 0;

  /// Prepares a batch from the dataset: the indices `samples` (batch) of its images, and how each
  /// image is cropped and mirrored, `crops` (batch).
  virtual void upload_samples(std::span<const std::int32_t> samples,
                              std::span<const core::CropFlip> crops) = 0;

 protected:
  ~DeviceDataset() = default;
};

/// Ability of a plan: dynamic loss scaling.
class LossScaling {
 public:
  /// Returns the loss scale after the collected steps.
  virtual LossScale loss_scale() const = 0;
  /// Sets the loss scale to one that `loss_scale` of an equal plan has returned, for resuming.
  virtual void set_loss_scale(const LossScale& scale) = 0;

 protected:
  ~LossScaling() = default;
};

/// Ability of a plan: single passes of a stage of a pipeline, driven by the host.
class StagePasses {
 public:
  /// Values at the boundaries of a stage (see graph::Graph::cut), in host memory, of shape (batch,
  /// channels, height, width). `set_boundary_input` precedes `forward`, which computes the boundary
  /// output; `set_output_gradient`, the gradient of the loss with respect to the boundary output,
  /// precedes `backward`, which computes the gradient of the boundary input. On a GPU, they wait
  /// until the values are copied; copies from and to `Backend::host_buffer` are faster. Throw
  /// `Error` (internal) if the graph does not have this boundary.
  virtual void set_boundary_input(std::span<const float> values) = 0;
  virtual void boundary_output(std::span<float> values) const = 0;
  virtual void set_output_gradient(std::span<const float> values) = 0;
  virtual void input_gradient(std::span<float> values) const = 0;

  /// Waits until the device has completed all work that was queued.
  virtual void synchronise() const = 0;

  /// Returns an executor that executes the work in each `run` and captures nothing, for work that
  /// waits for values of the device or uploads several batches. One step may be in flight; the
  /// result that `collect` returns is not defined. The plan must outlive the executor.
  virtual std::unique_ptr<StepExecutor> make_eager_executor(std::unique_ptr<StepWork> work) = 0;

 protected:
  ~StagePasses() = default;
};

/// A graph compiled for one batch size, precision and mode on one device. Memory is allocated by
/// the constructor and by `DeviceDataset::load_dataset`; a training step allocates none.
class Plan {
 public:
  virtual ~Plan() = default;
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Copies a batch to the plan: `images` (n, channels, height, width) uint8, `labels` (n) in [0,
  /// classes). n <= batch; in training n == batch. A stage that does not begin with the images
  /// ignores `images`, and a stage that does not end with the loss uses only the number of labels.
  virtual void upload(std::span<const std::uint8_t> images,
                      std::span<const std::int32_t> labels) = 0;

  /// Computes the forward pass from the uploaded batch to the loss. A GPU also normalises the
  /// images here. In training, also updates the running statistics with this batch. Collective over
  /// the replicas if `batch_norm_sum` is set.
  virtual void forward() = 0;

  /// Returns loss and number of correct predictions of the last forward pass; zeros if the graph
  /// is a stage that does not end with the loss.
  virtual BatchResult result() const = 0;

  /// Returns the logits of the last forward pass, (batch, classes).
  virtual std::span<const float> logits() const = 0;

  /// Computes the gradients of the mean loss over this replica's batch; overwrites the gradients of
  /// the state (see `GradientReduction`). After each operation, tells `listener` how many leading
  /// elements of the flat gradients are final. Training only; `forward` must have been called.
  /// Collective over the replicas if `batch_norm_sum` is set.
  virtual void backward(core::GradientListener& listener) = 0;

  /// Sets the coefficients of the updates of all batches that are uploaded after this call.
  virtual void set_coefficients(const optim::Coefficients& coefficients) = 0;

  /// Updates `count` parameters from index `first` on, in the flat layout, from their gradients by
  /// the optimiser (`optim::Optimiser::update`). In each step the calls must cover all parameters
  /// exactly once, in ascending order. If the gradients are clipped or scaled, the last call of a
  /// step updates all parameters, because the update depends on all gradients.
  virtual void update(std::size_t first, std::size_t count) = 0;

  /// Prepares the parameters for the operations after something else than `update` has written to
  /// them, for example communication; on a device, in the order of its stream.
  virtual void parameters_changed() = 0;

  /// Returns the timeline of the device for the timestamps of a step between `begin` and `run` of
  /// its executor.
  virtual core::Timeline& timeline() = 0;

  /// Returns an executor of training steps that consist of an upload and `work`. On a GPU this
  /// function executes the work once without communication, to load its kernels; if the executor
  /// captures steps (`StepExecutor::captures`), prepare it next. All of this changes the state:
  /// `Backend::store` must follow. The plan must outlive the executor.
  virtual std::unique_ptr<StepExecutor> make_step_executor(std::unique_ptr<StepWork> work) = 0;

  virtual MemoryUse memory() const = 0;
  virtual std::vector<OperationChoice> choices() const = 0;

  // Abilities that only some plans have; null if the plan does not have them.

  virtual DeviceDataset* device_dataset() { return nullptr; }
  virtual LossScaling* loss_scaling() { return nullptr; }  ///< null: the loss scale is constant
  virtual StagePasses* stage_passes() { return nullptr; }
};

/// Highest measured rates of a device; 0 if a rate was not measured.
struct Ceilings {
  double flops_per_second = 0;  ///< of the fastest matrix product; a multiply-add counts as two
  double bytes_per_second = 0;  ///< of a copy too large for the caches; bytes read and written
  std::string product;          ///< size and data type of that product: "1024x1024x1024 in fp32"
};

/// Compiles graphs into plans for one device. The rest of the program accesses CPUs and GPUs only
/// through this interface, `Device` and `make_backend`.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual const Device& device() const = 0;

  /// Returns a state with zero-filled flat buffers for the graph and an optimiser. The caller
  /// initialises or loads parameters and statistics.
  virtual ModelState make_state(const graph::Graph& graph, optim::Kind optimiser) const;
  ModelState make_state(const graph::Graph& graph) const {
    return make_state(graph, optim::Kind::sgd);
  }
  /// As above, but with a gradient buffer that the caller has allocated in device memory, for
  /// example in memory that suits the gradient transport. Its length is that of the flat parameters
  /// in `gradient_type`.
  virtual ModelState make_state(const graph::Graph& graph, optim::Kind optimiser,
                                core::Buffer gradients) const = 0;

  /// Returns the data type of the flat gradients on the device, given the data type in which they
  /// are communicated.
  virtual core::DataType gradient_type(core::DataType) const { return core::DataType::float32; }

  /// Returns the flat gradients in device memory, as elements of `type`.
  virtual core::GradientArray gradients(const ModelState& state, core::DataType type) const;

  /// Returns sums of the flat gradients of a state, which must outlive them. `type`: that of the
  /// flat gradients (`gradient_type`). The plans of the state must write the flat gradients
  /// (`GradientReduction::over_replicas`). Throws `Error` (out_of_memory).
  virtual std::unique_ptr<GradientSums> make_gradient_sums(const ModelState& state,
                                                           core::DataType type) const;

  /// Returns zeroed host memory for values that are often copied to and from the device. Throws
  /// `Error` (out_of_memory).
  virtual core::Buffer host_buffer(std::size_t bytes) const { return core::Buffer(bytes); }

  /// Returns the flat parameters in device memory, float32 in the order of the device, which is the
  /// same on all devices of a kind.
  virtual core::GradientArray parameters(const ModelState& state) const;

  /// Returns a 64-bit hash of the bits of the parameters, in the order in which the device stores
  /// them, so states on devices of different kinds are not comparable. Waits for all work that is
  /// queued on the device, and copies the parameters to the host if they are in device memory.
  virtual std::uint64_t parameter_hash(const ModelState& state) const;

  /// `fetch` copies a part of the state from the device to the host, `store` from the host to the
  /// device, after all work that is queued on the device. No effect if the device uses host memory.
  virtual void fetch(ModelState&, StatePart) const {}
  virtual void store(const ModelState&, StatePart) const {}
  void fetch(ModelState& state) const { fetch(state, StatePart::all); }
  void store(const ModelState& state) const { store(state, StatePart::all); }

  /// Compiles the graph. Throws `Error`: usage if this device does not support the graph or the
  /// precision, out_of_memory if the plan does not fit.
  virtual std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                        const PlanOptions& options) const = 0;

  /// Measures the highest rates that operations in this precision can reach: the best of several
  /// repeats of a memory copy, and of matrix products in every data type that the operations
  /// multiply in. Takes about a second.
  virtual Ceilings ceilings(core::Precision) const { return {}; }

  /// Returns the memory that `make_state` and `compile` would allocate, without allocating it.
  virtual MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const = 0;

  /// Returns a lower bound of `memory`, as far as it follows from the shapes: no implementation is
  /// selected or timed if the device selects them by timing.
  virtual MemoryUse least_memory(const graph::Graph& graph, const PlanOptions& options) const {
    return memory(graph, options);
  }

  /// Returns the implementations that `compile` would choose, without allocating the memory of the
  /// plan.
  virtual std::vector<OperationChoice> choices(const graph::Graph& graph,
                                               const PlanOptions& options) const = 0;

  /// Returns the number of kernel selections so far that `DeviceOptions::engine_seconds` cut off.
  virtual std::size_t cut_off_selections() const { return 0; }
};

/// Creates a backend. Throws `Error` (usage) if this build or this machine does not have the
/// device; the message says what is missing.
std::unique_ptr<Backend> make_backend(const DeviceOptions& options);
inline std::unique_ptr<Backend> make_backend(DeviceKind kind, int threads) {
  return make_backend(DeviceOptions{.kind = kind, .threads = threads});
}

}  // namespace lockstep::backend
