#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend {

enum class DeviceKind { reference, cpu, cuda };
std::string_view name(DeviceKind kind);

enum class Mode {
  training,   ///< batch statistics, backward possible
  inference,  ///< running statistics, forward only
};

/// Algorithm of convolutions where there is a choice. `automatic` takes Winograd where it exists
/// and wins.
enum class ConvolutionAlgorithm { automatic, direct, winograd };
std::string_view name(ConvolutionAlgorithm algorithm);

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
  Normalisation normalisation{};
  core::StatisticsSum* batch_norm_sum =
      nullptr;  ///< batch norm over all replicas; null: over this one's batch
  OperationListener* listener = nullptr;
};

/// The values of a replica: flat float32 buffers in the graph's layout. It outlives the plans
/// compiled on it.
struct ModelState {
  core::Buffer parameters;
  core::Buffer gradients;
  core::Buffer momentum;
  core::Buffer statistics;
  std::int64_t batches_tracked = 0;  ///< training batches that entered the running statistics
};

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

  virtual MemoryUse memory() const = 0;
  virtual std::vector<OperationChoice> choices() const = 0;
};

/// What a device can do at best, measured; 0 where it was not.
struct Ceilings {
  double flops_per_second = 0;  ///< of a large float32 matrix product; a multiply-add is two
  double bytes_per_second = 0;  ///< of a copy that fits in no cache; bytes read and written
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
  ModelState make_state(const graph::Graph& graph) const {
    return make_state(graph, core::Buffer(graph.parameter_elements() * sizeof(float)));
  }
  /// The same with gradients in memory of the caller's choice: what sums them may know better.
  virtual ModelState make_state(const graph::Graph& graph, core::Buffer gradients) const = 0;

  /// Throws `Error`: usage where this device cannot give the graph or the precision its meaning,
  /// out_of_memory where the plan does not fit.
  virtual std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                        const PlanOptions& options) const = 0;

  /// Measured now, in some tenths of a second.
  virtual Ceilings ceilings() const { return {}; }

  /// What `make_state` and `compile` would take, without taking it.
  virtual MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const = 0;
};

/// The seam between devices. `threads`: CPU threads of this replica (>= 1). Throws `Error` (usage)
/// for a device that this build or this machine does not have, saying what is missing.
std::unique_ptr<Backend> make_backend(DeviceKind kind, int threads);

}  // namespace lockstep::backend
