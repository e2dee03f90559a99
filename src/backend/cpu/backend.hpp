// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "convolution/convolution_choice.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/backend/device.hpp"
#include "onednn.hpp"

namespace lockstep::backend::cpu {

/// CPU backend: convolutions by oneDNN and by our own kernels, and our own kernels for most other
/// operations. Supports fp32 and bf16.
class CpuBackend : public Backend {
 private:
  class Processor final : public Device {
   public:
    DeviceKind kind() const override { return DeviceKind::cpu; }
    std::string name() const override;
    std::string library_versions() const override { return onednn_version(); }
  };

 public:
  explicit CpuBackend(const DeviceOptions& options);

  const Device& device() const override { return device_; }
  using Backend::make_state;
  ModelState make_state(const graph::Graph& graph, optim::Kind optimiser,
                        core::Buffer gradients) const override;
  std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options) const override;
  Ceilings ceilings(core::Precision precision) const override;
  MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const override;
  std::vector<OperationChoice> choices(const graph::Graph& graph,
                                       const PlanOptions& options) const override;

 private:
  PlanOptions with_progress(PlanOptions options) const;

  Processor device_;
  int threads_;
  core::ProgressMonitor* progress_;
  mutable ConvolutionChooser chooser_;  ///< caches the algorithms that it has chosen by timing
};

}  // namespace lockstep::backend::cpu
