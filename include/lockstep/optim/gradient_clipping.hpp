// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

namespace lockstep::optim {

/// Returns the factor of the gradients that limits their global norm to `max_norm`, as
/// torch.nn.utils.clip_grad_norm_ computes it: min(1, max_norm / (norm + 1e-6)), where `norm` is
/// the Euclidean norm of gradient_scale * gradients. The result depends neither on the number of
/// threads nor on the host, so that replicas with equal gradients stay equal. Reads 4 bytes per
/// gradient and allocates no memory.
float clipping_factor(double max_norm, float gradient_scale, std::span<const float> gradients);

}  // namespace lockstep::optim
