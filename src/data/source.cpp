// SPDX-License-Identifier: BSD-3-Clause
#include "source.hpp"

namespace lockstep::data {

bool is_supported(core::ImageShape image) {
  const auto fits = [](std::int64_t extent) { return extent >= 1 && extent <= most_pixels; };
  return fits(image.channels) && fits(image.height) && fits(image.width) &&
         image.elements() <= most_values;
}

std::filesystem::path path_of(const SourceRequest& request) {
  if (request.parameters.size() < 2 || request.parameters.front() != ':') {
    fail_source(request.value);
  }
  return request.parameters.substr(1);
}

}  // namespace lockstep::data
