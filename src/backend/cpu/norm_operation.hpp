#pragma once

#include <span>
#include <utility>

#include "operations.hpp"
#include "row_kernels.hpp"

namespace lockstep::backend::cpu {

/// Base class of normalisations y = relu(scale x + offset [+ residual]) with a weight (gamma) and a
/// bias (beta) per channel, which compute the addition and the ReLU that follow them. The gradient
/// g = mask(dy) is that of the value before the ReLU; it is also the gradient of the residual,
/// which is stored if it is needed. Without a residual, the mask is recomputed from x, so that y is
/// not read.
template <class T>
class NormOperation : public Operation {
 public:
  NormOperation(const Context& context, const Step& step, Operands given)
      : Operation(std::move(given)),
        context_(context),
        node_(context.graph->node(step.node)),
        channels_(static_cast<std::size_t>(operands().output->shape.channels)),
        activation_(step.with_relu ? Activation::relu : Activation::none) {}

  BackwardNeeds backward_needs() const override {
    return {.inputs = true, .output = has_residual() && activation_ == Activation::relu};
  }
  std::size_t output_gradients_taken() const override { return 2; }

  void bind(const MemoryBinding& binding) override {
    const auto parameter = [&](const core::Buffer& flat, std::size_t i) {
      const graph::Parameter& tensor = context_.graph->parameters()[node_.parameters[i]];
      return flat.as<float>().subspan(tensor.offset, channels_);
    };
    gamma_ = parameter(binding.state->parameters, 0);
    beta_ = parameter(binding.state->parameters, 1);
    if (!is_training()) return;
    gamma_gradient_ = parameter(binding.state->gradients, 0);
    beta_gradient_ = parameter(binding.state->gradients, 1);
  }

 protected:
  bool is_training() const { return context_.options.mode == Mode::training; }
  bool has_residual() const { return operands().inputs.size() > 1; }
  const T* input() const { return operands().inputs[0]->template as<T>(); }
  T* input_gradient() const {
    const FeatureMap* const map = operands().input_gradients[0];
    return map != nullptr ? map->as<T>() : nullptr;
  }

  /// Returns the elements from index `at` on that the forward pass normalises.
  NormaliseRows<T> forward_rows(std::int64_t at) const {
    return {.x = input() + at,
            .residual = has_residual() ? operands().inputs[1]->template as<T>() + at : nullptr,
            .y = operands().output->template as<T>() + at,
            .activation = activation_};
  }
  /// Returns the gradients from index `at` on for the first pass over them, which stores g if it is
  /// needed.
  GradientRows<T> gradient_rows(std::int64_t at) const {
    const auto& gradients = operands().output_gradients;
    GradientRows<T> rows{.dy = gradients[0]->template as<T>() + at, .x = input() + at};
    if (gradients.size() > 1) rows.dy2 = gradients[1]->template as<T>() + at;
    if (activation_ == Activation::relu) {
      rows.mask = has_residual() ? Mask::output : Mask::affine;
      rows.y = operands().output->template as<T>() + at;
    }
    if (stores_masked()) rows.masked = operands().input_gradients[1]->template as<T>() + at;
    return rows;
  }
  /// As `gradient_rows`, for the second pass.
  GradientRows<T> gradient_rows_again(std::int64_t at) const {
    GradientRows<T> rows = gradient_rows(at);
    if (stores_masked()) return {.dy = rows.masked, .x = rows.x};
    return rows;
  }

  const Context& context_;
  const graph::Node& node_;
  std::size_t channels_;
  std::span<float> gamma_, beta_, gamma_gradient_, beta_gradient_;

 private:
  bool stores_masked() const { return has_residual() && operands().input_gradients[1] != nullptr; }

  Activation activation_;
};

}  // namespace lockstep::backend::cpu
