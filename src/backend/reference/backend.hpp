// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::reference {

/// Reference implementation: every operation as plain loops on one thread. It accepts any precision
/// and always computes in float64; its results are those that the precisions approximate.
class ReferenceBackend : public Backend {
 private:
  class ReferenceDevice final : public Device {
   public:
    DeviceKind kind() const override { return DeviceKind::reference; }
    std::string name() const override { return "reference"; }
    std::string library_versions() const override { return "plain loops (float64)"; }
  };

 public:
  /// `progress` is notified of each operation; may be null.
  explicit ReferenceBackend(core::ProgressMonitor* progress = nullptr) : progress_(progress) {}

  const Device& device() const override { return device_; }
  using Backend::make_state;
  ModelState make_state(const graph::Graph& graph, optim::Kind optimiser,
                        core::Buffer gradients) const override;
  std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options) const override;
  MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const override;
  std::vector<OperationChoice> choices(const graph::Graph& graph,
                                       const PlanOptions& options) const override;

 private:
  ReferenceDevice device_;
  core::ProgressMonitor* progress_;
};

}  // namespace lockstep::backend::reference
