// SPDX-License-Identifier: BSD-3-Clause
// y = (pixel / 255 - mean_c) / deviation_c: the normalisation of torchvision's ToTensor and
// Normalize.

#include <algorithm>

#include "operations.hpp"

namespace lockstep::backend::reference {

void normalise(const Normalisation& normalisation, std::span<const std::uint8_t> images,
               Tensor& y) {
  auto pixel = images.begin();
  for (std::int64_t n = 0; n < y.batch; ++n) {
    for (std::int64_t c = 0; c < y.shape.channels; ++c) {
      const auto statistic = static_cast<std::size_t>(std::min<std::int64_t>(c, 2));
      const double mean = normalisation.mean[statistic];
      const double deviation = normalisation.standard_deviation[statistic];
      for (double& value : y.plane(n, c)) value = (*pixel++ / 255.0 - mean) / deviation;
    }
  }
}

}  // namespace lockstep::backend::reference
