// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/data/dataset.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::data {

Dataset::Dataset(DatasetInfo info, LabelledImages content)
    : info_(std::move(info)), content_(std::move(content)) {
  core::check(content_.images.size() == size() * image_bytes(),
              "a dataset has one image per label");
  const auto is_class = [this](std::int32_t label) { return label >= 0 && label < info_.classes; };
  core::check(std::ranges::all_of(labels(), is_class), "labels are classes of the dataset");
}

std::span<const core::NamedValue<DataResidency>> named_values(DataResidency) {
  static constexpr std::array<core::NamedValue<DataResidency>, 2> values{
      {{DataResidency::host, "host", "batches are copied"},
       {DataResidency::device, "device", "the GPU holds all images"}}};
  return values;
}

}  // namespace lockstep::data
