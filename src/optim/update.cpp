#include "lockstep/optim/update.hpp"

#include <algorithm>
#include <cstddef>

#include "lockstep/core/error.hpp"

namespace lockstep::optim {

namespace {

// Elements that one thread processes at a time. Three arrays of 64 KiB fit in an L2 cache, and
// the cost of scheduling a chunk is small compared with the time to process it.
constexpr std::size_t chunk = 16384;

// The buffers do not overlap. Baseline SSE2 code already reaches the memory bandwidth. Without
// fused multiply-add the results are bitwise identical on all x86-64 hosts, so replicas on
// different hosts stay equal.
template <bool nesterov>
void update_chunk(const Sgd sgd, float* __restrict parameters, const float* __restrict gradients,
                  float* __restrict velocity, std::size_t size) {
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const float gradient = sgd.gradient_scale * gradients[i] + sgd.weight_decay * parameters[i];
    const float v = sgd.momentum * velocity[i] + gradient;
    velocity[i] = v;
    parameters[i] -= sgd.learning_rate * (nesterov ? gradient + sgd.momentum * v : v);
  }
}

}  // namespace

void update(const Sgd& sgd, std::span<float> parameters, std::span<const float> gradients,
            std::span<float> velocity) {
  core::check(gradients.size() == parameters.size() && velocity.size() == parameters.size(),
              "parameters, gradients and velocity have one length");
  const auto update_part = sgd.nesterov ? update_chunk<true> : update_chunk<false>;
  const std::size_t size = parameters.size();
#pragma omp parallel for schedule(static) if (size > chunk)
  for (std::size_t begin = 0; begin < size; begin += chunk) {
    update_part(sgd, parameters.data() + begin, gradients.data() + begin, velocity.data() + begin,
                std::min(chunk, size - begin));
  }
}

}  // namespace lockstep::optim
