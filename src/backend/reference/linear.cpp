// y[n,k] = b[k] + sum_c W[k,c] x[n,c]
// dx[n,c] = sum_k W[k,c] dy[n,k],  dW[k,c] = sum_n dy[n,k] x[n,c],  db[k] = sum_n dy[n,k]

#include <algorithm>

#include "operations.hpp"

namespace lockstep::backend::reference {

void linear_forward(const Tensor& x, std::span<const double> weight, std::span<const double> bias,
                    Tensor& y) {
  const std::int64_t inputs = x.shape.channels;
  const std::int64_t outputs = y.shape.channels;
  for (std::int64_t n = 0; n < x.batch; ++n) {
    for (std::int64_t k = 0; k < outputs; ++k) {
      double sum = bias[k];
      for (std::int64_t c = 0; c < inputs; ++c) {
        sum += weight[k * inputs + c] * x.values[n * inputs + c];
      }
      y.values[n * outputs + k] = sum;
    }
  }
}

void linear_backward(const Tensor& x, std::span<const double> weight, const Tensor& dy, Tensor* dx,
                     std::span<double> dweight, std::span<double> dbias) {
  const std::int64_t inputs = x.shape.channels;
  const std::int64_t outputs = dy.shape.channels;
  std::ranges::fill(dweight, 0.0);
  std::ranges::fill(dbias, 0.0);
  for (std::int64_t n = 0; n < x.batch; ++n) {
    for (std::int64_t k = 0; k < outputs; ++k) {
      const double value = dy.values[n * outputs + k];
      dbias[k] += value;
      for (std::int64_t c = 0; c < inputs; ++c) {
        dweight[k * inputs + c] += value * x.values[n * inputs + c];
        if (dx != nullptr) dx->values[n * inputs + c] += value * weight[k * inputs + c];
      }
    }
  }
}

}  // namespace lockstep::backend::reference
