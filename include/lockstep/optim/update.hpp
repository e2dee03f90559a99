// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/core/named_value.hpp"

namespace lockstep::optim {

/// Rule by which the parameters follow from their gradients (see `update`).
enum class Kind { sgd, lars, adamw };
std::span<const core::NamedValue<Kind>> named_values(Kind);

/// Whether weight decay, and the local learning rates of LARS, also apply to one-dimensional
/// parameters: weights and biases of normalisations, biases of layers.
enum class VectorDecay { on, off };
std::span<const core::NamedValue<VectorDecay>> named_values(VectorDecay);

/// Coefficients of the update of one step. Each optimiser uses some of them.
struct Coefficients {
  float learning_rate = 0.1f;
  float momentum = 0.9f;  ///< SGD, LARS
  float weight_decay = 5e-4f;
  bool nesterov = false;     ///< SGD
  float gradient_scale = 1;  ///< factor of the gradients; 1/N if they are sums over N replicas
  float trust = 0.001f;      ///< LARS: trust coefficient
  std::int64_t step = 1;     ///< AdamW: number of this update, counted from 1
};

/// Decay rates of the moments of AdamW, and the constant in its denominator; PyTorch's defaults.
struct AdamW {
  static constexpr double beta1 = 0.9, beta2 = 0.999;
  static constexpr float epsilon = 1e-8f;
};

/// Views of flat buffers of one length. `second_moment` is used by AdamW only.
struct Values {
  std::span<float> parameters;
  std::span<const float> gradients;
  std::span<float> momentum;
  std::span<float> second_moment{};
};

/// Updates parameters in one pass (g: gradients, p: parameters, v: momentum, s: second moment, t:
/// step). Throws `Error` (internal) if the buffers differ in length. Momentum and second moment are
/// 0 before the first step.
///   g' = gradient_scale g
///   SGD, as torch.optim.SGD:
///     v = momentum v + (g' + weight_decay p)
///     p -= learning_rate (nesterov ? g' + weight_decay p + momentum v : v)
///   LARS (You, Gitman, Ginsburg, arXiv:1708.03888, algorithm 1), without its local rate (see
///   `local_rate`), which the caller multiplies into learning_rate:
///     v = momentum v + learning_rate (g' + weight_decay p);  p -= v
///   AdamW, as torch.optim.AdamW (Loshchilov, Hutter, arXiv:1711.05101):
///     v = beta1 v + (1 - beta1) g';  s = beta2 s + (1 - beta2) g'^2
///     p -= learning_rate (weight_decay p + v / (1 - beta1^t) / (sqrt(s / (1 - beta2^t)) +
///     epsilon))
/// SGD and LARS read 12 and write 8 bytes per parameter, AdamW reads 16 and writes 12.
void update(Kind kind, const Coefficients& coefficients, const Values& values);

/// Returns the local learning rate of LARS for one parameter:
///   trust |p| / (|g'| + weight_decay |p|), with Euclidean norms; 1 if a norm is 0.
/// The result depends neither on the number of threads nor on the host, so that replicas with equal
/// gradients stay equal. Reads 8 bytes per element and allocates no memory.
float local_rate(const Coefficients& coefficients, std::span<const float> parameters,
                 std::span<const float> gradients);

/// Returns the factor of the gradients that limits their global norm to `max_norm`, as
/// torch.nn.utils.clip_grad_norm_ computes it: min(1, max_norm / (norm + 1e-6)), where `norm` is
/// the Euclidean norm of gradient_scale * gradients. The result depends neither on the number of
/// threads nor on the host, so that replicas with equal gradients stay equal. Reads 4 bytes per
/// gradient and allocates no memory.
float clipping_factor(double max_norm, float gradient_scale, std::span<const float> gradients);

/// Position of a parameter in the flat buffers: the elements [begin, end).
struct ParameterRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_vector = false;  ///< has one dimension
};

/// An optimiser with the parameters of a network.
class Optimiser {
 public:
  /// `parameters`: in ascending order.
  Optimiser(Kind kind, VectorDecay vector_decay, const std::vector<ParameterRange>& parameters);

  /// Updates `count` elements from index `first` on. The local rates of LARS need whole parameters:
  /// it updates the parameters whose last elements are among these. `values`: all elements.
  void update(const Coefficients& coefficients, const Values& values, std::size_t first,
              std::size_t count) const;

 private:
  /// Elements that are updated together: for LARS one parameter, otherwise successive parameters.
  struct Section {
    std::size_t begin, end;
    bool decays;
  };

  Kind kind_;
  std::vector<Section> sections_;
};

}  // namespace lockstep::optim
