#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Images (size, channels, height, width) and labels (size).
struct LabelledImages {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
};

/// A dataset whose images are all in host memory.
class InMemoryDataset final : public Dataset {
 public:
  /// Throws `Error` (internal) if there is not one image per label or a label is out of range.
  InMemoryDataset(DatasetInfo info, LabelledImages content);

  const DatasetInfo& info() const override { return info_; }
  std::size_t size() const override { return content_.labels.size(); }
  std::int32_t label(std::size_t sample) const override { return content_.labels[sample]; }
  std::span<const std::uint8_t> read_image(std::size_t sample,
                                           std::span<std::uint8_t> buffer) const override;

  /// Returns the memory of `samples` images of the shape `image` in bytes.
  static std::uint64_t bytes(core::ImageShape image, std::size_t samples);

 private:
  DatasetInfo info_;
  LabelledImages content_;
};

}  // namespace lockstep::data
