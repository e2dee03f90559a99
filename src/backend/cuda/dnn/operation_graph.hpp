// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../device/device.hpp"
#include "lockstep/core/data_type.hpp"

namespace cudnn_frontend::graph {
class Tensor_attributes;
}

namespace lockstep::backend::cuda {

/// Binds an input or output tensor of a graph to device memory.
struct Binding {
  std::int64_t uid = 0;
  void* data = nullptr;  ///< device memory, aligned to 16 bytes
};

/// Sizes of a tensor. In memory, activations are NHWC and weights KRSC: channels (c) vary fastest.
struct Extents {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::int64_t elements() const { return n * c * h * w; }
};

struct Window {
  std::int64_t stride = 1, padding = 0;
};

enum class Pointwise {
  relu,
  relu_backward,  ///< operands (gradient, value): the gradient if value > 0, else 0
  add,
  multiply,
  is_greater
};

/// Properties of an engine configuration (an engine with its knobs), from cuDNN's numerical and
/// behaviour notes.
struct EngineFacts {
  std::string name = {};  ///< engine and knobs: "eng67_k2=4_k13=0"
  bool tensor_core = false;
  bool down_converts = false;     ///< inputs are rounded to a narrower type
  bool narrow_sums = false;       ///< sums are rounded to a narrower type in between
  bool nondeterministic = false;  ///< by cuDNN's note; see `GraphNature::has_fused_sums`
  bool runtime_compiled = false;
};

enum class Heuristics { best_first, fallback };

/// Returns the reason for a cuDNN error in one line. `message`: of cudnn-frontend. Throws `Error`
/// (out_of_memory) if cuDNN or the CUDA runtime could not allocate memory.
std::string refusal_of(const std::string& message);

/// A cuDNN operation graph under construction, and the engine configurations that can execute it
/// (here: engines). Only `run` needs a GPU. The functions that add tensors to the graph throw
/// `Error` (internal) if the program uses them wrongly, e.g. if it repeats a uid. The functions
/// that return an optional string return std::nullopt on success, and otherwise cuDNN's reason in
/// one line; they throw `Error` (out_of_memory) if an allocation failed.
class OperationGraph {
 public:
  using Tensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;

  /// `virtual_type`: data type of virtual tensors, i.e. those inside the graph. The target must
  /// outlive the graph.
  OperationGraph(const Target& target, core::DataType virtual_type);
  ~OperationGraph();

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
  /// Adds the normalisation of x with given statistics: (x - mean) inverse_deviation scale + bias.
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
  /// Adds both sums as one node (genstats), which cuDNN supports for the output of some
  /// convolutions.
  ChannelSums channel_sums(Tensor x);
  /// Adds the sum of x alone, as a reduction node.
  Tensor channel_sum(Tensor x, std::int64_t channels);

  enum class PortKind {
    input,
    output,
    /// An output that must be zeroed before each run, because some engines add to it and others
    /// overwrite it.
    zeroed_output
  };

  /// Declares the tensor an output of the graph. `kind`: `output` or `zeroed_output`.
  void output(const Tensor& tensor, std::int64_t uid, core::DataType type,
              PortKind kind = PortKind::output);

  /// An input or output tensor, which must be bound in `run`.
  struct Port {
    std::int64_t uid = 0;
    std::size_t bytes = 0;
    core::DataType type = core::DataType::float32;
    PortKind kind = PortKind::input;
  };
  std::vector<Port> ports() const;  ///< in ascending order of uid

  /// Limits the engines to kernels that use `count` of the GPU's multiprocessors, if they support
  /// it. Must be called before `seal`.
  void limit_multiprocessors(int count);

  // --- engines ---

  /// Completes the graph: validates it and builds the cuDNN operation graph. Returns an error if
  /// cuDNN does not support the graph.
  std::optional<std::string> seal();

  /// Appends the engines that cuDNN's heuristics return. Returns an error if there are none.
  std::optional<std::string> find_engines(Heuristics heuristics);

  std::size_t engines() const;
  EngineFacts facts(std::size_t engine) const;

  /// Builds the execution plan of the engine. Returns an error if the target does not support the
  /// engine or if its workspace exceeds `workspace_limit` bytes.
  std::optional<std::string> build(std::size_t engine, std::size_t workspace_limit);
  std::size_t workspace_bytes(std::size_t engine) const;  ///< `engine` must be built

  /// Releases the execution plans of all other engines.
  void keep_only(std::size_t engine);

  /// Returns the execution plan of a built engine in serialised form, including its machine code;
  /// empty if cuDNN cannot serialise it.
  std::vector<std::uint8_t> serialise(std::size_t engine) const;

  /// Returns a graph with the tensors of this one and a single engine, number 0, which is restored
  /// from `bytes`. The engine must have been serialised with the same libraries and on the same
  /// type of GPU, in this or another process. On the result, only `run` and the functions that
  /// return properties may be called. Returns null if `bytes` is not a valid serialised engine.
  std::unique_ptr<OperationGraph> restored(std::span<const std::uint8_t> bytes,
                                           const std::string& name) const;

  /// Enqueues the execution plan of a built engine on the target's stream. `bindings`: every port
  /// once, in any order. `workspace`: `workspace_bytes(engine)`, aligned to 256 bytes. Returns an
  /// error if cuDNN fails. Throws `Error` (internal) if no GPU is present or if a port is not
  /// bound.
  std::optional<std::string> run(std::size_t engine, std::span<const Binding> bindings,
                                 void* workspace) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::backend::cuda
