// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.hpp"
#include "source.hpp"

namespace lockstep::data {

/// Description of a dataset in files of fixed-size records. A record consists of label bytes and
/// the pixels (channels, height, width), one byte each. Files contain records and nothing else.
struct RecordFormat {
  std::string_view name;                   ///< as in `DatasetInfo`
  std::string_view title;                  ///< for messages, for example "CIFAR-10"
  std::string_view help;                   ///< meaning of NAME:DIR, for `--help`
  std::string_view advice;                 ///< completes "get a fresh copy ..."
  std::string_view archive_folder{};       ///< of the published archive; may be empty
  std::vector<const char*> train_files{};  ///< in the order of the training images
  std::vector<const char*> test_files{};
  const char* published_file = nullptr;  ///< that only the published archive contains; may be null
  std::size_t most_records = 0;          ///< largest number of records in a file
  /// Number of classes of each label byte. The last byte is the label of the image.
  std::vector<std::int32_t> label_classes{};
  core::ImageShape image{};
  core::Normalisation normalisation{};

  std::int32_t classes() const { return label_classes.back(); }
  std::size_t record_bytes() const {
    return label_classes.size() + static_cast<std::size_t>(image.elements());
  }
};

/// Returns the formats of the published datasets.
const std::vector<RecordFormat>& published_formats();

/// Returns the number of records in a file of `bytes` bytes. Throws `Error` (input), naming `file`,
/// if the file is empty, truncated or oversized.
std::size_t count_records(const RecordFormat& format, std::uintmax_t bytes,
                          const std::filesystem::path& file);

/// Appends the records in `bytes` to `to`. Throws `Error` (input), naming `file`, in the cases of
/// `count_records` and if a label is out of range.
void append_records(const RecordFormat& format, std::span<const std::uint8_t> bytes,
                    const std::filesystem::path& file, LabelledImages& to);

/// Returns whether `folder` contains a file of training images or the archive's folder.
bool has_records(const RecordFormat& format, const std::filesystem::path& folder);

/// A folder with the files of a dataset. The first file of training images must exist; those of the
/// last ones may be missing, which causes a warning if the folder is that of the published archive.
class RecordFiles final : public Source {
 public:
  /// Finds the files in the folder that `request` names, or in the archive's folder in it. `format`
  /// must outlive the object. Throws `Error`: usage if the request names no folder, input if a file
  /// is missing or has a wrong size.
  RecordFiles(const RecordFormat& format, const SourceRequest& request);

  LabelledImages read(Split split, std::size_t samples,
                      core::ProgressMonitor* progress) const override;

 private:
  std::size_t count_all(const std::vector<const char*>& files) const;

  const RecordFormat& format_;
  std::filesystem::path folder_;
  std::vector<const char*> train_files_;  ///< those that exist
};

}  // namespace lockstep::data
