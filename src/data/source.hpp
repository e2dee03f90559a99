// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Returns whether a network can be trained on images of this shape: each extent is at least 1, and
/// none exceeds what the libraries compute with.
bool is_supported(core::ImageShape image);
inline constexpr std::int64_t most_pixels = 4096;  ///< per side, and most channels
// oneDNN computes some sizes of one image in 32 bits; the first layers have up to 64 channels.
inline constexpr std::int64_t most_values = std::int64_t{16} * most_pixels * most_pixels;

enum class Split : std::uint32_t { train, test };

/// A dataset that has been found, but whose images have not been read or generated.
class Source {
 public:
  virtual ~Source() = default;

  const DatasetInfo& info() const { return info_; }

  /// Returns the number of images of `split`.
  std::size_t size(Split split) const { return sizes_.at(static_cast<std::size_t>(split)); }

  /// Returns the first `samples` images of `split`; there must be as many. Reports progress for
  /// each file or 1,000 images. Throws `Error` (input) if a file is damaged.
  virtual LabelledImages read(Split split, std::size_t samples,
                              core::ProgressMonitor* progress) const = 0;

 protected:
  DatasetInfo info_;
  std::array<std::size_t, 2> sizes_{};
};

/// Value of `--data`, split after the name of the dataset.
struct SourceRequest {
  std::string value;            ///< the whole value, for messages
  std::string_view parameters;  ///< the rest after the name, with its first separator; may be empty
  std::uint64_t seed = 1;
};

/// Returns the path in the request, which follows a colon. Throws `Error` (usage) if there is none.
std::filesystem::path path_of(const SourceRequest& request);

/// An entry of the registry of datasets.
struct SourceEntry {
  std::string_view name;  ///< first word of `--data`
  std::string syntax;     ///< form of the whole value
  std::string_view help;  ///< meaning of the value
  std::function<std::unique_ptr<Source>(const SourceRequest&)> open;
};

/// Returns the registry of datasets.
const std::vector<SourceEntry>& source_entries();

/// Opens the source that `value`, the value of `--data`, names. Throws `Error`: usage if the
/// name is unknown or the parameters are invalid, input if the files are missing or have wrong
/// sizes.
std::unique_ptr<Source> open_source(const std::string& value, std::uint64_t seed);

/// Throws `Error` (usage): the value of `--data` has none of the forms of the registry.
[[noreturn]] void fail_source(const std::string& value);

}  // namespace lockstep::data
