// y = left + right; dleft = dright = dy.

#include "operations.hpp"

namespace lockstep::backend::reference {

void add_forward(const Tensor& left, const Tensor& right, Tensor& y) {
  const auto out = y.all();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = left.values[i] + right.values[i];
}

void add_backward(const Tensor& dy, Tensor* dleft, Tensor* dright) {
  const auto out = dy.all();
  for (Tensor* summand : {dleft, dright}) {
    if (summand == nullptr) continue;
    for (std::size_t i = 0; i < out.size(); ++i) summand->values[i] += out[i];
  }
}

}  // namespace lockstep::backend::reference
