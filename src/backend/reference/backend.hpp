#pragma once

#include <memory>
#include <string>

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::reference {

/// The judge: every operation as plain loops on one thread. It takes any precision and computes in
/// float64 whatever it is: the result that a precision is an approximation of.
class ReferenceBackend : public Backend {
 public:
  /// `progress`: null, or informed of each operation.
  explicit ReferenceBackend(core::ProgressMonitor* progress = nullptr) : progress_(progress) {}

  DeviceKind kind() const override { return DeviceKind::reference; }
  std::string device_name() const override { return "reference"; }
  std::string library_versions() const override { return "plain loops (float64)"; }
  using Backend::make_state;
  ModelState make_state(const graph::Graph& graph, core::Buffer gradients) const override;
  std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options) const override;
  MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const override;
  std::vector<OperationChoice> choices(const graph::Graph& graph,
                                       const PlanOptions& options) const override;

 private:
  core::ProgressMonitor* progress_;
};

}  // namespace lockstep::backend::reference
