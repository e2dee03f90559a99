#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// CIFAR-10's binary version (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html). A
/// record is one label byte (0..9) and 1,024 red, 1,024 green, 1,024 blue bytes, row by row; a file
/// holds up to 10,000 records and nothing else.
namespace cifar10 {

inline constexpr core::ImageShape image{3, 32, 32};
inline constexpr std::size_t image_bytes = 3 * 32 * 32;
inline constexpr std::size_t record_bytes = 1 + image_bytes;
inline constexpr std::size_t file_records = 10'000;
inline constexpr std::size_t classes = 10;

/// Records in a file of `bytes` bytes. Throws `Error` (input) where it is empty, truncated or
/// oversized; `file` is named.
std::size_t count_records(std::uintmax_t bytes, const std::filesystem::path& file);

/// Appends the records of `bytes` to `to`. Throws `Error` (input) as `count_records` does, and for
/// a label out of range; `file` is named.
void append_records(std::span<const std::uint8_t> bytes, const std::filesystem::path& file,
                    Dataset& to);

/// The ten class names of batches.meta.txt, one a line. Throws `Error` (input) where there are not
/// exactly ten.
std::vector<std::string> parse_class_names(const std::string& text,
                                           const std::filesystem::path& file);

/// The files' sizes, without reading the images. Throws `Error` (input) for missing files and wrong
/// sizes.
DataSizes sizes(const std::filesystem::path& folder);

/// The first `train` and `test` images over the files in their order; both at most what `sizes`
/// gives.
struct Sets {
  Dataset train;
  Dataset test;
};
Sets read(const std::filesystem::path& folder, std::size_t train, std::size_t test,
          core::ProgressMonitor* progress = nullptr);

}  // namespace cifar10
}  // namespace lockstep::data
