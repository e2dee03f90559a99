// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

#include "record_files.hpp"

namespace lockstep::data {

inline constexpr std::array one_label{10};
inline constexpr std::array two_labels{20, 100};
inline constexpr std::array test_files{"images.bin"};

/// Returns the format of a dataset of small images. `label_classes`: number of classes of each
/// label byte.
constexpr RecordFormat small_format(std::span<const std::int32_t> label_classes) {
  return {.name = "small",
          .title = "SMALL",
          .help = "small images",
          .advice = "from nowhere",
          .train_files = test_files,
          .test_files = test_files,
          .most_records = 100,
          .label_classes = label_classes,
          .image = {3, 5, 7}};
}

inline constexpr std::array record_formats{small_format(one_label), small_format(two_labels)};

}  // namespace lockstep::data
