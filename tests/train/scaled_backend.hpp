// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "delegating_backend.hpp"

namespace lockstep::train::testing {

/// Adds a dynamic loss scale to a plan of a device that has none. The scale doubles every second
/// step and multiplies the learning rate, so that a run that loses the scale has different
/// parameters.
class ScaledPlan final : public backend::Plan, private backend::LossScaling {
 public:
  explicit ScaledPlan(std::unique_ptr<backend::Plan> plan) : plan_(std::move(plan)) {}

  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override {
    plan_->upload(images, labels);
  }
  void forward() override { plan_->forward(); }
  backend::BatchResult result() const override { return plan_->result(); }
  std::span<const float> logits() const override { return plan_->logits(); }
  void backward(core::GradientListener& listener) override {
    plan_->backward(listener);
    if (++scale_.good_steps < 2) return;
    scale_ = {.scale = 2 * scale_.scale, .good_steps = 0};
  }
  void set_coefficients(const optim::Coefficients& coefficients) override {
    optim::Coefficients scaled = coefficients;
    scaled.learning_rate *= scale_.scale / 64;
    plan_->set_coefficients(scaled);
  }
  void update(std::size_t first, std::size_t count) override { plan_->update(first, count); }
  core::Timeline& timeline() override { return plan_->timeline(); }
  std::unique_ptr<backend::StepExecutor> make_step_executor(
      std::unique_ptr<backend::StepWork> work) override {
    return plan_->make_step_executor(std::move(work));
  }
  void parameters_changed() override { plan_->parameters_changed(); }
  LossScaling* loss_scaling() override { return this; }
  backend::MemoryUse memory() const override { return plan_->memory(); }
  std::vector<backend::OperationChoice> choices() const override { return plan_->choices(); }

 private:
  backend::LossScale loss_scale() const override { return scale_; }
  void set_loss_scale(const backend::LossScale& scale) override { scale_ = scale; }

  std::unique_ptr<backend::Plan> plan_;
  backend::LossScale scale_{.scale = 1, .good_steps = 0};
};

/// Compiles the plans of another backend as `ScaledPlan`.
class ScaledBackend final : public DelegatingBackend {
 public:
  using DelegatingBackend::DelegatingBackend;

  std::unique_ptr<backend::Plan> compile(const graph::Graph& graph, backend::ModelState& state,
                                         const backend::PlanOptions& options) const override {
    return std::make_unique<ScaledPlan>(inner().compile(graph, state, options));
  }
};

}  // namespace lockstep::train::testing
