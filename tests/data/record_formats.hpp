// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <utility>

#include "record_files.hpp"

namespace lockstep::data {

/// Returns the format of a dataset of small images. `label_classes`: number of classes of each
/// label byte.
inline RecordFormat small_format(std::vector<std::int32_t> label_classes) {
  return {.name = "small",
          .title = "SMALL",
          .help = "small images",
          .advice = "from nowhere",
          .train_files = {"images.bin"},
          .test_files = {"images.bin"},
          .most_records = 100,
          .label_classes = std::move(label_classes),
          .image = {3, 5, 7}};
}

inline const std::array record_formats{small_format({10}), small_format({20, 100})};

}  // namespace lockstep::data
