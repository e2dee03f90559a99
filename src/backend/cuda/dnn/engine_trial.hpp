// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "../device/kernel_stopwatch.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// Engines of one graph whose outputs agree.
struct AgreeingEngines {
  std::string first;                       ///< name of the first one
  std::size_t count = 0;                   ///< number of engines
  double tolerance = 0;                    ///< of the first one, see `EngineTrial::compare`
  std::vector<core::Buffer> outputs = {};  ///< of the first one; none: not kept
  std::vector<double> norms = {};          ///< Euclidean norms of the outputs
  bool is_finite = true;                   ///< all elements of the outputs are finite
  bool overflows = false;                  ///< elements are infinite, and none is NaN
};

/// Runs the engines of one graph on the GPU with random inputs: compares their outputs and times
/// them. The constructor allocates the tensors and the workspace; it throws `Error` (out_of_memory)
/// if the memory does not suffice.
class EngineTrial {
 public:
  static constexpr double failed = std::numeric_limits<double>::infinity();

  /// `workspace_bytes`: the largest workspace of the engines.
  EngineTrial(const Target& target, const OperationGraph& graph, std::size_t workspace_bytes);

  /// Returns whether the GPU has free memory for a trial and a copy of the outputs.
  static bool fits(const Target& target, const OperationGraph& graph, std::size_t workspace_bytes);

  /// Returns the median execution time of several runs of a built engine in seconds; `failed` if
  /// cuDNN fails.
  double seconds(const OperationGraph& graph, std::size_t engine) const;

  /// Runs engine 0 of a restored graph. Returns false if cuDNN fails to enqueue it.
  bool runs(const OperationGraph& restored) const;

  /// Runs a built engine and compares its outputs with those of the engines before. Returns the
  /// index of its group in `groups()`; a new group if all relative Euclidean distances to the
  /// groups exceed `tolerance` and the tolerance of the first engine of the group. Returns
  /// std::nullopt if cuDNN refuses to run it (`refusal`). Throws `Error` (internal) if its kernels
  /// fail on the GPU. Before the run, the outputs are filled with NaN, so that an
  /// element that is not written is not finite; those that must be zeroed are zeroed.
  std::optional<std::size_t> compare(const OperationGraph& graph, std::size_t engine,
                                     double tolerance);
  const std::vector<AgreeingEngines>& groups() const { return groups_; }

  /// Returns why cuDNN refused to run an engine the last time.
  const std::string& refusal() const { return refusal_; }

  /// Returns the group with the most engines; of several, the first one whose outputs are finite.
  /// Must be called after `compare`.
  std::size_t majority() const;

  /// Returns how the outputs of group `group` differ from those of group `reference`, as the end of
  /// an error message.
  std::string describe_difference(std::size_t group, std::size_t reference, double tolerance) const;

 private:
  struct Tensor {
    OperationGraph::Port port;
    core::Buffer memory;
  };

  bool enqueue(const OperationGraph& graph, std::size_t engine) const;
  void prepare_outputs() const;
  std::vector<const Tensor*> outputs() const;
  double norm(core::DataType type, const core::Buffer& a, const core::Buffer* b = nullptr) const;
  double current_distance(const AgreeingEngines& reference) const;
  double distance(const AgreeingEngines& from, const AgreeingEngines& reference) const;
  void add_group(const std::string& name, double tolerance);

  const Target& target_;
  KernelStopwatch stopwatch_;
  std::vector<Tensor> tensors_;
  std::vector<Binding> bindings_;
  core::Buffer workspace_;
  core::Buffer sums_;
  std::size_t tensor_bytes_ = 0;
  std::vector<AgreeingEngines> groups_;
  mutable std::string refusal_;
};

/// Returns the largest relative Euclidean distance between right outputs of two engines of a graph.
/// `engine`: one that rounds sums to a narrower type may differ more.
double output_tolerance(const OperationGraph& graph, bool is_true_fp32, const EngineFacts& engine);

}  // namespace lockstep::backend::cuda
