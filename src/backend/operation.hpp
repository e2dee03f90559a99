// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "feature_map.hpp"
#include "lockstep/backend/backend.hpp"

namespace lockstep::backend {

/// Operands of an operation. Shapes, types and layouts are known when an operation is created; the
/// maps have memory when it is bound.
struct Operands {
  std::vector<const FeatureMap*> inputs;
  const FeatureMap* output = nullptr;
  std::vector<const FeatureMap*> output_gradients;  ///< one per consumer; the gradient is their sum
  std::vector<const FeatureMap*> input_gradients;   ///< one per input; null if not needed
};

/// Feature maps that the backward pass of an operation reads again.
struct BackwardNeeds {
  std::size_t inputs = 0;  ///< number of the first inputs that it reads
  bool output = false;
};

/// Memory that is assigned to an operation.
struct MemoryBinding {
  ModelState* state = nullptr;
  /// Workspace, shared by all operations; its contents are not preserved between operations.
  std::byte* workspace = nullptr;
  /// As `workspace`, for the delayed parts of backward passes, which may run beside the operations
  /// that use `workspace`, but not beside each other.
  std::byte* delayed_workspace = nullptr;
  /// Memory of this operation for data saved for backward: preserved from its forward to its
  /// backward pass.
  std::byte* saved = nullptr;
};

/// One operation of a compiled plan. It is created from shapes alone, so that the memory of a plan
/// is known before any is allocated; `bind` then assigns memory, once.
class Operation {
 public:
  explicit Operation(Operands operands) : operands_(std::move(operands)) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Returns the bytes of workspace that the operation needs.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Returns the bytes that the operation saves for backward.
  virtual std::size_t saved_bytes() const { return 0; }
  virtual BackwardNeeds backward_needs() const { return {}; }
  /// Returns the number of output gradients that the operation can sum itself.
  virtual std::size_t output_gradients_taken() const { return 1; }
  /// Returns the output gradient, of those that it sums itself, whose memory the gradient of an
  /// input may use: `backward` reads an element of the output gradient for the last time before it
  /// writes the element with the same address. Different inputs return different output gradients.
  virtual std::optional<std::size_t> overwritten_gradient(std::size_t) const { return {}; }
  const std::vector<const FeatureMap*>& output_gradients() const {
    return operands_.output_gradients;
  }
  virtual void bind(const MemoryBinding&) {}
  virtual void forward() = 0;
  virtual void backward() = 0;
  /// Returns whether `recompute` computes the output of the last forward pass again, the same bits,
  /// from the inputs and from what the operation saves for backward. The memory of the output can
  /// then be used for other data between its last use in the forward pass and its first use in the
  /// backward pass. It should take little time compared with the operations that read the output.
  virtual bool can_recompute() const { return false; }
  /// Called at most once per backward pass, before `backward`.
  virtual void recompute() {}
  /// Returns the number of steps of the backward pass after which the operation completes what
  /// `backward` began; 0: it is complete when `backward` returns. Until then it reads its inputs
  /// and output gradients and writes the gradients of its parameters. The gradients of its inputs
  /// are complete when `backward` returns.
  virtual int backward_delay() const { return 0; }
  /// Returns the bytes of workspace that the delayed part of `backward` needs.
  virtual std::size_t delayed_workspace_bytes() const { return 0; }
  /// Completes the delayed part: work that is queued after this call sees its results. Called once
  /// per backward pass if `backward_delay` is not 0.
  virtual void finish_backward() {}
  /// Returns the phase that `backward` completes last, as in `OperationChoice`, or "backward" if it
  /// is not split into phases.
  virtual std::string_view last_backward_phase() const { return "backward"; }
  virtual std::vector<OperationChoice> choices() const { return {}; }

 protected:
  const Operands& operands() const { return operands_; }

 private:
  Operands operands_;
};

}  // namespace lockstep::backend
