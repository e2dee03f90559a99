// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <utility>

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend {

/// Base class of plans that compute in host memory, where nothing is queued or captured.
class HostPlan : public Plan, public StagePasses {
 public:
  HostPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options);
  void set_coefficients(const optim::Coefficients& coefficients) override {
    coefficients_ = coefficients;
  }
  void update(std::size_t first, std::size_t count) override;
  void parameters_changed() override {}
  core::Timeline& timeline() override { return timeline_; }
  std::unique_ptr<StepExecutor> make_step_executor(std::unique_ptr<StepWork> work) override;
  StagePasses* stage_passes() override { return this; }
  void synchronise() const override {}
  std::unique_ptr<StepExecutor> make_eager_executor(std::unique_ptr<StepWork> work) override {
    return make_step_executor(std::move(work));
  }

 protected:
  ModelState& state_;

 private:
  optim::Optimiser optimiser_;
  optim::Coefficients coefficients_;
  core::HostTimeline timeline_;
  double max_gradient_norm_;  ///< 0: no clipping
};

}  // namespace lockstep::backend
