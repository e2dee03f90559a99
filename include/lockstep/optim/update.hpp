#pragma once

#include <span>

namespace lockstep::optim {

/// Coefficients of one step of stochastic gradient descent with momentum, in PyTorch's convention.
struct Sgd {
  float learning_rate = 0.1f;
  float momentum = 0.9f;
  float weight_decay = 5e-4f;
  bool nesterov = false;
  float gradient_scale = 1;  ///< factor of the gradients; 1/N if they are sums over N replicas
};

/// Updates the flat parameter and velocity buffers in one pass (g: gradients, p: parameters, v:
/// velocity):
///   g' = gradient_scale g + weight_decay p;  v = momentum v + g';
///   p -= learning_rate (nesterov ? g' + momentum v : v).
/// Reads 12 and writes 8 bytes per parameter. If the velocity is initially zero, the first step is
/// the same as PyTorch's (v = g'). Throws `Error` (internal) if the buffers differ in length.
void update(const Sgd& sgd, std::span<float> parameters, std::span<const float> gradients,
            std::span<float> velocity);

}  // namespace lockstep::optim
