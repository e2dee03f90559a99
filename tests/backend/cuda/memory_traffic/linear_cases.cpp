// Memory traffic of the kernels of fully connected layers.

#include "backend/cuda/kernels/linear.hpp"
#include "cases.hpp"

namespace lockstep::backend::cuda::kernels::test {

std::vector<Traffic> linear_cases() {
  constexpr std::int64_t rows = 32, inputs = 128, outputs = 10;
  const Tensor<float> x(rows * inputs), y(rows * outputs), w(outputs * inputs), bias(outputs);
  constexpr std::int64_t slabs = 4;
  const Tensor<float> slab_dw(slabs * outputs * inputs), slab_dbias(slabs * outputs);
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
      count_traffic("LinearGradientSlabs",
                    LinearGradientSlabs{y.data(), x.data(), slab_dw.data(), slab_dbias.data(), rows,
                                        inputs, outputs, slabs},
                    {strided(reads("x", x, outputs * x.bytes(), "once per output"), 1.1),
                     strided(writes("dw", slab_dw), 1.1), strided(writes("dbias", slab_dbias), 8),
                     table("dy", y, (inputs / 4 + 1) * y.bytes())}),
      count_traffic("LinearGradientTotals",
                    LinearGradientTotals{slab_dw.data(), slab_dbias.data(), w.data(), bias.data(),
                                         inputs, outputs, slabs},
                    {reads("slab_dw", slab_dw), strided(reads("slab_dbias", slab_dbias), 2),
                     writes("dw", w), strided(writes("dbias", bias), 2)}),
  };
}

}  // namespace lockstep::backend::cuda::kernels::test
