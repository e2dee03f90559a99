#pragma once

#include "convolution_choice.hpp"
#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::cpu {

/// The CPU as a device: oneDNN's convolutions, our own passes between them. float32 and bfloat16.
class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const DeviceOptions& options);

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string device_name() const override;
  std::string library_versions() const override;
  using Backend::make_state;
  ModelState make_state(const graph::Graph& graph, core::Buffer gradients) const override;
  std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options) const override;
  Ceilings ceilings(core::Precision precision) const override;
  MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const override;
  std::vector<OperationChoice> choices(const graph::Graph& graph,
                                       const PlanOptions& options) const override;

 private:
  PlanOptions with_progress(PlanOptions options) const;

  int threads_;
  core::ProgressMonitor* progress_;
  mutable ConvolutionChooser chooser_;  ///< remembers what it has timed
};

}  // namespace lockstep::backend::cpu
