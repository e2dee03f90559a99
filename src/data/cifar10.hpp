#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Reader for the binary version of CIFAR-10 (Krizhevsky 2009,
/// https://www.cs.toronto.edu/~kriz/cifar.html). A record is one label byte (0..9) followed by
/// 1,024 red, 1,024 green and 1,024 blue bytes, row by row. A file contains up to 10,000 records
/// and nothing else.
namespace cifar10 {

inline constexpr core::ImageShape image{3, 32, 32};
inline constexpr std::size_t image_bytes = 3 * 32 * 32;
inline constexpr std::size_t record_bytes = 1 + image_bytes;
inline constexpr std::size_t file_records = 10'000;
inline constexpr std::size_t classes = 10;

/// Returns the number of records in a file of `bytes` bytes. Throws `Error` (input), naming `file`,
/// if the file is empty, truncated or oversized.
std::size_t count_records(std::uintmax_t bytes, const std::filesystem::path& file);

/// Appends the records in `bytes` to `to`. Throws `Error` (input), naming `file`, in the cases of
/// `count_records` and if a label is out of range.
void append_records(std::span<const std::uint8_t> bytes, const std::filesystem::path& file,
                    Dataset& to);

/// Returns the ten class names in `text`, the content of batches.meta.txt (one name per line).
/// Throws `Error` (input), naming `file`, if there are not exactly ten.
std::vector<std::string> parse_class_names(const std::string& text,
                                           const std::filesystem::path& file);

/// Returns the numbers of images, computed from the file sizes without reading the images. Throws
/// `Error` (input) if a file is missing or has a wrong size.
DataSizes sizes(const std::filesystem::path& folder);

/// Training and test images.
struct Sets {
  Dataset train;
  Dataset test;
};
/// Reads the first `train` training images and the first `test` test images, over the files in
/// their order. Both numbers must not exceed those that `sizes` returns. Throws `Error` (input) if
/// a file is missing, has a wrong size or contains a label out of range.
Sets read(const std::filesystem::path& folder, std::size_t train, std::size_t test,
          core::ProgressMonitor* progress = nullptr);

}  // namespace cifar10
}  // namespace lockstep::data
