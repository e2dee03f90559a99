// y = max(x, 0); dx = dy if x > 0, else 0 (0 at x = 0, as in PyTorch).

#include <algorithm>

#include "operations.hpp"

namespace lockstep::backend::reference {

void relu_forward(const Tensor& x, Tensor& y) {
  const auto in = x.all();
  const auto out = y.all();
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = std::max(in[i], 0.0);
}

void relu_backward(const Tensor& x, const Tensor& dy, Tensor* dx) {
  if (dx == nullptr) return;
  const auto in = x.all();
  const auto out = dy.all();
  const auto target = dx->all();
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] > 0) target[i] += out[i];
  }
}

}  // namespace lockstep::backend::reference
