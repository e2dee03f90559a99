#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../device/device.hpp"
#include "lockstep/core/data_type.hpp"

namespace lockstep::backend::cuda {

/// A tensor that enters or leaves a graph, and where it stands now.
struct Binding {
  std::int64_t uid = 0;
  void* data = nullptr;  ///< device memory, aligned to 16 bytes
};

/// Sizes of a tensor. In memory activations are NHWC and weights KRSC: channels (c) vary fastest.
struct Extents {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::int64_t elements() const { return n * c * h * w; }
};

struct Window {
  std::int64_t stride = 1, padding = 0;
};

enum class Pointwise {
  relu,
  relu_backward,  ///< of (gradient, value): the gradient where the value is > 0, else 0
  add,
  multiply,
  is_greater
};

/// How a graph could be computed, and what cuDNN notes about it.
struct EngineFacts {
  std::string name = {};  ///< engine and knobs: "eng67_k2=4_k13=0"
  bool tensor_core = false;
  bool down_converts = false;     ///< inputs are rounded to a narrower type
  bool nondeterministic = false;  ///< by its note; see `Summation`
  bool runtime_compiled = false;
};

enum class Heuristics { best_first, fallback };

/// A graph of cuDNN operations under construction, and its engines. Needs no device except to run.
/// The building functions throw `Error` (internal) for what no graph can mean; whether a device can
/// compute it shows in the functions that return a refusal: one line of cuDNN's reason.
class OperationGraph {
 public:
  using Tensor = std::size_t;

  /// `virtual_type`: of tensors that stay inside the graph. The target outlives the graph.
  OperationGraph(const Target& target, core::DataType virtual_type);
  ~OperationGraph();
  OperationGraph(const OperationGraph&) = delete;
  OperationGraph& operator=(const OperationGraph&) = delete;

  Tensor input(std::int64_t uid, const Extents& extents, core::DataType type);
  Tensor constant(float value);

  Tensor convolution(Tensor x, Tensor weights, Window window);
  Tensor convolution_backward_data(Tensor dy, Tensor weights, const Extents& x, Window window);
  Tensor convolution_backward_weights(Tensor dy, Tensor x, const Extents& weights, Window window);
  Tensor pointwise(Pointwise operation, Tensor a);
  Tensor pointwise(Pointwise operation, Tensor a, Tensor b);

  struct BatchNorm {
    Tensor y, mean, inverse_deviation, running_mean, running_variance;
  };
  BatchNorm batch_norm(Tensor x, Tensor scale, Tensor bias, Tensor running_mean,
                       Tensor running_variance, float epsilon, float momentum);
  /// What batch norm made of x, from its statistics: (x - mean) inverse_deviation scale + bias.
  Tensor batch_norm_apply(Tensor x, Tensor mean, Tensor inverse_deviation, Tensor scale,
                          Tensor bias);
  struct BatchNormBackward {
    Tensor dx, dscale, dbias;
  };
  BatchNormBackward batch_norm_backward(Tensor dy, Tensor x, Tensor scale, Tensor mean,
                                        Tensor inverse_deviation);

  struct ChannelSums {
    Tensor sum, squares;  ///< (1, c, 1, 1): over all pixels of all images
  };
  /// In one node, which cuDNN has for some convolutions' outputs.
  ChannelSums channel_sums(Tensor x);
  /// The sum alone, as a reduction.
  Tensor channel_sum(Tensor x, std::int64_t channels);

  /// The tensor leaves the graph.
  void output(Tensor tensor, std::int64_t uid, core::DataType type);

  /// A tensor that `run` must be given.
  struct Port {
    std::int64_t uid = 0;
    std::size_t bytes = 0;
    core::DataType type = core::DataType::float32;
  };
  std::vector<Port> ports() const;  ///< ascending uids

  // --- engines ---

  /// Ends the building. A refusal where the graph is none for cuDNN.
  std::optional<std::string> seal();

  /// Appends the engines that cuDNN names; a refusal where there is none.
  std::optional<std::string> find_engines(Heuristics heuristics);

  std::size_t engines() const;
  EngineFacts facts(std::size_t engine) const;

  /// Makes the engine ready to run; a refusal where it does not fit the target or the limit.
  std::optional<std::string> build(std::size_t engine, std::size_t workspace_limit);
  std::size_t workspace_bytes(std::size_t engine) const;  ///< of a built engine

  /// Releases what the others hold.
  void keep_only(std::size_t engine);

  /// A built engine as bytes, its machine code included; none where cuDNN cannot.
  std::vector<std::uint8_t> serialise(std::size_t engine) const;

  /// A graph with the tensors of this one whose only engine, number 0, is the one that was
  /// serialised, in this process or another with the same libraries and GPU; it can be run and
  /// nothing else. Null where the bytes are no such engine.
  std::unique_ptr<OperationGraph> restored(std::span<const std::uint8_t> bytes,
                                           const std::string& name) const;

  /// Enqueues on the target's stream. `bindings`: every port once, in any order. `workspace`:
  /// `workspace_bytes(engine)`, aligned to 256 bytes. A refusal where cuDNN fails.
  std::optional<std::string> run(std::size_t engine, std::span<const Binding> bindings,
                                 void* workspace) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::backend::cuda
