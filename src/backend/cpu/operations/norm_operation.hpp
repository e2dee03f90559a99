// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "../kernels/channel_sums.hpp"
#include "../kernels/row_kernels.hpp"
#include "../kernels/vectors.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

/// Coefficients of a normalisation, per channel.
struct NormCoefficients {
  NormCoefficients(const FeatureMap& map, RowTiling tiling)
      : center(map, tiling),
        scale(map, tiling),
        offset(map, tiling),
        gradient_factor(map, tiling),
        input_factor(map, tiling),
        constant(map, tiling) {}

  TiledCoefficients center;         ///< subtracted from x before it is summed
  TiledCoefficients scale, offset;  ///< y = scale x + offset
  /// dx = gradient_factor g + input_factor x + constant
  TiledCoefficients gradient_factor, input_factor, constant;
};

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
    return {.inputs = 1, .output = has_residual() && activation_ == Activation::relu};
  }
  bool can_recompute() const override { return is_training(); }
  std::size_t output_gradients_taken() const override { return 2; }
  /// If the residual has a gradient, it is computed first, and the gradient of x from it.
  std::optional<std::size_t> overwritten_gradient(std::size_t input) const override {
    const std::size_t is_second = input == 0 && has_residual_gradient() ? 1 : 0;
    if (is_second >= operands().output_gradients.size()) return std::nullopt;
    return is_second;
  }

  void bind(const MemoryBinding& binding) override {
    gamma_ = context_.parameter(binding.state->parameters, node_, 0);
    beta_ = context_.parameter(binding.state->parameters, node_, 1);
    if (!is_training()) return;
    gamma_gradient_ = context_.parameter(binding.state->gradients, node_, 0);
    beta_gradient_ = context_.parameter(binding.state->gradients, node_, 1);
  }

 protected:
  bool is_training() const { return context_.options.mode == Mode::training; }
  bool has_residual() const { return operands().inputs.size() > 1; }
  const T* input() const { return operands().inputs[0]->template as<T>(); }
  bool has_residual_gradient() const {
    return has_residual() && operands().input_gradients[1] != nullptr;
  }
  bool has_input_gradient() const { return operands().input_gradients[0] != nullptr; }
  /// Returns the first value of a channel of an image. It is close enough to the mean to avoid
  /// cancellation in the squares.
  float first_value(std::int64_t image, std::size_t channel) const {
    return load(input()[operands().output->index(image, static_cast<std::int64_t>(channel), 0)]);
  }

  // The passes over the rows `rows` of a block of channels that begin at index `at`.

  void normalise_rows(std::int64_t at, RowTiling rows, std::int64_t block,
                      const NormCoefficients& c) const {
    const NormaliseRows<T> maps{
        .x = input() + at,
        .residual = has_residual() ? operands().inputs[1]->template as<T>() + at : nullptr,
        .y = operands().output->template as<T>() + at,
        .scale = c.scale.block(block),
        .offset = c.offset.block(block),
        .activation = activation_};
    normalise(maps, rows);
  }
  /// Adds g to the sums and g (x - center) to the products. Stores g if it is needed.
  void sum_gradients(std::int64_t at, RowTiling rows, std::int64_t block, const NormCoefficients& c,
                     float* sums, float* products) const {
    gradient_sums(gradient_rows(at, block, c), rows, c.center.block(block), sums, products);
  }
  /// Writes dx; the input must have a gradient.
  void write_input_gradient(std::int64_t at, RowTiling rows, std::int64_t block,
                            const NormCoefficients& c) const {
    GradientRows<T> maps = gradient_rows(at, block, c);
    if (maps.masked != nullptr)
      maps = {.dy = maps.masked, .x = maps.x, .scale = maps.scale, .offset = maps.offset};
    input_gradient(
        maps, operands().input_gradients[0]->template as<T>() + at, rows,
        {c.gradient_factor.block(block), c.input_factor.block(block), c.constant.block(block)});
  }

  const Context& context_;
  const graph::Node& node_;
  std::size_t channels_;
  std::span<float> gamma_, beta_, gamma_gradient_, beta_gradient_;

 private:
  /// Returns the gradients from index `at` on.
  GradientRows<T> gradient_rows(std::int64_t at, std::int64_t block,
                                const NormCoefficients& c) const {
    const auto& gradients = operands().output_gradients;
    GradientRows<T> rows{.dy = gradients[0]->template as<T>() + at,
                         .x = input() + at,
                         .scale = c.scale.block(block),
                         .offset = c.offset.block(block)};
    if (gradients.size() > 1) rows.dy2 = gradients[1]->template as<T>() + at;
    if (activation_ == Activation::relu) {
      rows.mask = has_residual() ? Mask::output : Mask::affine;
      rows.y = operands().output->template as<T>() + at;
    }
    if (has_residual_gradient()) rows.masked = operands().input_gradients[1]->template as<T>() + at;
    return rows;
  }

  Activation activation_;
};

}  // namespace lockstep::backend::cpu
