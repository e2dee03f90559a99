// SPDX-License-Identifier: BSD-3-Clause
#include "host_plan.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/graph/graph.hpp"
#include "lockstep/optim/update.hpp"
#include "parameters.hpp"

namespace lockstep::backend {

namespace {

/// Executes steps synchronously: nothing is captured, and `collect` need not wait.
class HostStepExecutor final : public StepExecutor {
 public:
  HostStepExecutor(const Plan& plan, std::unique_ptr<StepWork> work)
      : StepExecutor(std::move(work)), plan_(plan) {}

  void begin() override {}
  void run() override { work().enqueue(); }
  BatchResult collect() override { return plan_.result(); }

 private:
  const Plan& plan_;
};

class HostGradientSums final : public GradientSums {
 public:
  explicit HostGradientSums(std::span<float> gradients)
      : gradients_(gradients), sums_(gradients.size()) {}

  void clear() override { std::ranges::fill(sums_, 0.0F); }
  void add_gradients() override {
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += gradients_[i];
  }
  void add_to_gradients(std::size_t first, std::size_t count) override {
    for (std::size_t i = first; i < first + count; ++i) gradients_[i] += sums_[i];
  }

 private:
  std::span<float> gradients_;
  std::vector<float> sums_;
};

}  // namespace

HostPlan::HostPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options)
    : state_(state),
      optimiser_(options.optimiser, options.vector_decay, parameter_ranges(graph)),
      max_gradient_norm_(options.max_gradient_norm) {}

void HostPlan::update(std::size_t first, std::size_t count) {
  const auto gradients = state_.gradients.as<float>();
  optim::Coefficients coefficients = coefficients_;
  if (max_gradient_norm_ > 0) {
    // The norm is known only when all gradients are available.
    if (first + count < gradients.size()) return;
    first = 0;
    count = gradients.size();
    coefficients.gradient_scale *=
        optim::clipping_factor(max_gradient_norm_, coefficients.gradient_scale, gradients);
  }
  optimiser_.update(coefficients,
                    {state_.parameters.as<float>(), gradients, state_.momentum.as<float>(),
                     state_.second_moment.as<float>()},
                    first, count);
}

std::unique_ptr<StepExecutor> HostPlan::make_step_executor(std::unique_ptr<StepWork> work) {
  return std::make_unique<HostStepExecutor>(*this, std::move(work));
}

ModelState Backend::make_state(const graph::Graph& graph, optim::Kind optimiser) const {
  return make_state(graph, optimiser, core::Buffer(graph.parameter_elements() * sizeof(float)));
}

std::unique_ptr<GradientSums> Backend::make_gradient_sums(const ModelState& state,
                                                          core::DataType) const {
  return std::make_unique<HostGradientSums>(state.gradients.as<float>());
}

core::GradientArray Backend::gradients(const ModelState& state, core::DataType type) const {
  return {state.gradients.data(), state.gradients.bytes() / core::size_of(type), type};
}

core::GradientArray Backend::parameters(const ModelState& state) const {
  return {state.parameters.data(), state.parameters.bytes() / sizeof(float),
          core::DataType::float32};
}

}  // namespace lockstep::backend
