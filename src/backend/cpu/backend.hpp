#pragma once

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::cpu {

/// The CPU as a device: oneDNN's convolutions, our own passes between them. float32 and bfloat16.
class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads);

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string device_name() const override;
  std::string library_versions() const override;
  ModelState make_state(const graph::Graph& graph) const override;
  std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options) const override;
  MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const override;

 private:
  int threads_;
};

}  // namespace lockstep::backend::cpu
