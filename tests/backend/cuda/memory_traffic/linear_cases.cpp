// Memory traffic of the kernels of fully connected layers.

#include "backend/cuda/kernels/linear.hpp"
#include "cases.hpp"

namespace lockstep::backend::cuda::kernels::test {

std::vector<Traffic> linear_cases() {
  constexpr std::int64_t rows = 32, inputs = 128, outputs = 10;
  const Tensor<float> x(rows * inputs), y(rows * outputs), w(outputs * inputs), bias(outputs);
  return {
      count_traffic("LinearForward",
                    LinearForward{x.data(), w.data(), bias.data(), y.data(), rows, inputs, outputs},
                    {reads("x", x, outputs * x.bytes(), "once per output"),
                     reads("w", w, rows * w.bytes(), "once per row"), strided(writes("y", y), 8),
                     table("bias", bias, rows * bias.bytes())}),
      count_traffic("LinearInputGradient",
                    LinearInputGradient{y.data(), w.data(), x.data(), rows, inputs, outputs},
                    {reads("w", w, rows * w.bytes(), "once per row"), writes("dx", x),
                     table("dy", y, inputs * y.bytes())}),
      count_traffic("LinearWeightGradient",
                    LinearWeightGradient{y.data(), x.data(), w.data(), rows, inputs, outputs},
                    {reads("x", x, outputs * x.bytes(), "once per output"), writes("dw", w),
                     table("dy", y, inputs * y.bytes())}),
      count_traffic("LinearBiasGradient", LinearBiasGradient{y.data(), bias.data(), rows, outputs},
                    {strided(reads("dy", y), 8), strided(writes("dbias", bias), 8)}),
  };
}

}  // namespace lockstep::backend::cuda::kernels::test
