// SPDX-License-Identifier: BSD-3-Clause
#include "record_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "lockstep/core/error.hpp"
#include "lockstep/core/file_kind.hpp"

namespace lockstep::data {

// The published datasets of records. The pixels of a record are 1,024 red, 1,024 green and 1,024
// blue bytes, row by row. Means and standard deviations are those of all pixels of the training
// images.
const std::vector<RecordFormat>& published_formats() {
  static const std::vector<RecordFormat> formats{
      // The binary version of CIFAR-10 (Krizhevsky 2009,
      // https://www.cs.toronto.edu/~kriz/cifar.html).
      // Own images in this format need not fill all five files of training images.
      {.name = "cifar10",
       .title = "CIFAR-10",
       .help = "binary version",
       .advice = "with jobs/download-cifar10 DIR",
       .archive_folder = "cifar-10-batches-bin",
       .train_files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                       "data_batch_4.bin", "data_batch_5.bin"},
       .test_files = {"test_batch.bin"},
       .published_file = "batches.meta.txt",
       .most_records = 10'000,
       .label_classes = {10},
       .image = {3, 32, 32},
       .normalisation = {.mean = {0.4914f, 0.4822f, 0.4465f},
                         .standard_deviation = {0.2023f, 0.1994f, 0.2010f}}},
      // The binary version of CIFAR-100 (from the same page) with a coarse and a fine label.
      {.name = "cifar100",
       .title = "CIFAR-100",
       .help = "binary version, fine labels",
       .advice = "of https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
       .archive_folder = "cifar-100-binary",
       .train_files = {"train.bin"},
       .test_files = {"test.bin"},
       .most_records = 50'000,
       .label_classes = {20, 100},
       .image = {3, 32, 32},
       .normalisation = {.mean = {0.5071f, 0.4865f, 0.4409f},
                         .standard_deviation = {0.2673f, 0.2564f, 0.2762f}}},
      // Street View House Numbers, the cropped digits (Netzer et al. 2011,
      // http://ufldl.stanford.edu/housenumbers). The published files are of MATLAB; docs/options.md
      // has the command that converts them.
      {.name = "svhn",
       .title = "SVHN",
       .help = "cropped digits, converted as docs/options.md describes",
       .advice = "by the command in docs/options.md from train_32x32.mat and test_32x32.mat",
       .train_files = {"train_32x32.bin"},
       .test_files = {"test_32x32.bin"},
       .most_records = 604'388,  // with those of extra_32x32.mat
       .label_classes = {10},
       .image = {3, 32, 32},
       .normalisation = {.mean = {0.4377f, 0.4438f, 0.4728f},
                         .standard_deviation = {0.1980f, 0.2010f, 0.1970f}}}};
  return formats;
}

namespace {

namespace fs = std::filesystem;

// Returns whether `folder` contains the folder of the published archive.
bool has_archive_folder(const RecordFormat& format, const fs::path& folder) {
  std::error_code ignored;
  return !format.archive_folder.empty() &&
         fs::is_directory(folder / format.archive_folder, ignored);
}

// Returns whether the folder is that of the published archive, rather than one of own images.
bool is_published(const RecordFormat& format, const fs::path& folder) {
  std::error_code ignored;
  return (!format.archive_folder.empty() &&
          (folder / "").parent_path().filename() == format.archive_folder) ||
         (format.published_file != nullptr && fs::exists(folder / format.published_file, ignored));
}

[[noreturn]] void fail(const fs::path& place, const std::string& what, const std::string& advice) {
  core::fail(core::ExitStatus::input, fmt::format("{}: {}; {}", place.string(), what, advice));
}

std::string fresh_copy(const RecordFormat& format) {
  return fmt::format("get a fresh copy {}, or use --data synthetic", format.advice);
}

// Throws `Error` (input) about a file of images. Its kind, if known, replaces `reason`.
[[noreturn]] void fail_input(const RecordFormat& format, const fs::path& file,
                             const std::string& what, std::string reason = "") {
  const std::string_view kind = core::file_kind(file);
  if (kind != core::unknown_kind && kind != "no file" && kind != "an empty file")
    reason = fmt::format("it is {}", kind);
  const std::string found = reason.empty() ? what : fmt::format("{} ({})", what, reason);
  const std::string_view common = core::advice_for_all_readers(kind);
  if (!common.empty()) fail(file, found, std::string(common));
  if (is_published(format, file.parent_path())) fail(file, found, fresh_copy(format));
  fail(file, found,
       fmt::format("write records of {} label byte(s) and {} pixel bytes ({}x{}x{}) and nothing "
                   "else, or {}",
                   format.label_classes.size(), format.image.elements(), format.image.channels,
                   format.image.height, format.image.width, fresh_copy(format)));
}

// Throws `Error` (input) about `path` if `place` is a published archive or its version for Python:
// how the user gets a folder of the format from it. `is_first`: whether `place` is `path` itself.
void fail_if_convertible(const RecordFormat& format, const fs::path& path, const std::string& what,
                         const fs::path& place, bool is_first) {
  const auto first = format.train_files.front();
  const std::string name = place.filename();
  const std::string_view kind = core::file_kind(place);
  const bool is_cifar = name.starts_with("cifar");
  // Each archive with a folder also has a version for Python, with the same names but no ".bin".
  const bool is_pickle = kind == "a Python pickle" &&
                         core::file_kind(place.parent_path() / fs::path(first).stem()) == kind;
  const bool is_python =
      is_pickle || (is_cifar && (name.ends_with("-py") || name.find("python") != name.npos));
  if (is_python && !format.archive_folder.empty()) {
    fail(path, what,
         fmt::format("convert it with lockstep-data cifar-python {0} -o {1}.h5, and use --data "
                     "hdf5:{1}.h5",
                     (is_pickle ? place.parent_path() : place).string(), format.name));
  }
  if (kind.ends_with(" archive") && (is_first || is_cifar)) {
    const bool is_zip = kind == "a ZIP archive";
    fail(path, what,
         fmt::format("unpack it: {0} {1} {2} {3}; if this creates {4}, then use --data {5}:{3}",
                     is_zip ? "unzip" : "tar -xf", place.string(), is_zip ? "-d" : "-C",
                     place.parent_path().string(), first, format.name));
  }
}

// Throws `Error` (input): `path` is not a folder with files of the format. Names what it is
// instead, and how the user gets such a folder from it, from its entries or from the folder of a
// file.
[[noreturn]] void fail_folder(const RecordFormat& format, const fs::path& path) {
  std::error_code error;
  const auto first = format.train_files.front();
  if (!fs::exists(path, error)) {
    fail(path, fmt::format("no such folder of {} files", format.title), fresh_copy(format));
  }
  const bool is_folder = fs::is_directory(path, error);
  const std::string what =
      is_folder
          ? fmt::format("the folder contains no {} of {}", first, format.title)
          : fmt::format("is {}, not a folder of {} files", core::file_kind(path), format.title);
  std::vector<fs::path> places{path.has_parent_path() ? path : "." / path};
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    places.push_back(at->path());
  }
  if (!is_folder) places.push_back(places.front().parent_path());
  for (const fs::path& place : places) {
    if (has_records(format, place)) {
      fail(path, what, fmt::format("use --data {}:{}", format.name, place.string()));
    }
  }
  for (const fs::path& place : places) {
    fail_if_convertible(format, path, what, place, place == places.front());
  }
  fail(path, what, fresh_copy(format));
}

// Returns the folder that contains the files: `folder` or the archive's subfolder in it.
fs::path locate(const RecordFormat& format, const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) fail_folder(format, folder);
  if (fs::exists(folder / format.train_files.front(), ignored)) return folder;
  if (has_archive_folder(format, folder)) return folder / format.archive_folder;
  if (is_published(format, folder) || has_records(format, folder)) return folder;
  fail_folder(format, folder);
}

// Returns the files of training images without the last ones, as far as they do not exist.
std::vector<const char*> existing_files(const RecordFormat& format, const fs::path& folder) {
  std::vector<const char*> files = format.train_files;
  std::error_code ignored;
  while (files.size() > 1 && !fs::exists(folder / files.back(), ignored)) files.pop_back();
  return files;
}

std::uintmax_t size_of(const RecordFormat& format, const fs::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) fail_input(format, file, "cannot be read", error.message());
  return bytes;
}

// Returns the first `bytes` bytes of a file.
std::vector<std::uint8_t> read_bytes(const RecordFormat& format, const fs::path& file,
                                     std::size_t bytes) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail_input(format, file, "cannot be opened", std::strerror(errno));
  std::vector<std::uint8_t> content(bytes);
  stream.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(bytes));
  if (static_cast<std::size_t>(stream.gcount()) != bytes) {
    fail_input(format, file,
               fmt::format("only {} of {} bytes could be read", stream.gcount(), bytes));
  }
  return content;
}

}  // namespace

bool has_records(const RecordFormat& format, const fs::path& folder) {
  std::error_code ignored;
  return has_archive_folder(format, folder) ||
         std::ranges::any_of(format.train_files,
                             [&](const char* name) { return fs::exists(folder / name, ignored); });
}

std::size_t count_records(const RecordFormat& format, std::uintmax_t bytes, const fs::path& file) {
  const std::size_t record = format.record_bytes();
  if (bytes == 0) fail_input(format, file, "the file is empty");
  if (bytes > format.most_records * record) {
    fail_input(format, file,
               fmt::format("{} bytes, more than the {} records of {} bytes a {} file holds", bytes,
                           format.most_records, record, format.title));
  }
  if (bytes % record != 0) {
    fail_input(format, file,
               fmt::format("{} bytes, not a multiple of the record's {} (truncated after {} whole "
                           "records)",
                           bytes, record, bytes / record));
  }
  return static_cast<std::size_t>(bytes / record);
}

void append_records(const RecordFormat& format, std::span<const std::uint8_t> bytes,
                    const fs::path& file, LabelledImages& to) {
  const std::size_t records = count_records(format, bytes.size(), file);
  const std::size_t labels = format.label_classes.size();
  for (std::size_t record = 0; record < records; ++record) {
    const auto content = bytes.subspan(record * format.record_bytes(), format.record_bytes());
    for (std::size_t i = 0; i < labels; ++i) {
      if (content[i] < format.label_classes[i]) continue;
      fail_input(format, file,
                 fmt::format("record {} (counted from 0) has label {}, above {}", record,
                             content[i], format.label_classes[i] - 1));
    }
    to.labels.push_back(content[labels - 1]);
    to.images.insert(to.images.end(), content.begin() + static_cast<std::ptrdiff_t>(labels),
                     content.end());
  }
}

RecordFiles::RecordFiles(const RecordFormat& format, const SourceRequest& request)
    : format_(format),
      folder_(locate(format, path_of(request))),
      train_files_(existing_files(format, folder_)) {
  sizes_ = {count_all(train_files_), count_all(format.test_files)};
  info_ = {.name = std::string(format.name),
           .image = format.image,
           .classes = format.classes(),
           .normalisation = format.normalisation};
  if (train_files_.size() < format.train_files.size() && is_published(format, folder_)) {
    info_.warning = fmt::format(
        "{} contains {} of the {} files of {}, so the run uses {} training images; for all, get a "
        "fresh copy {}",
        folder_.string(), train_files_.size(), format.train_files.size(), format.title,
        size(Split::train), format.advice);
  }
}

std::size_t RecordFiles::count_all(const std::vector<const char*>& files) const {
  std::size_t records = 0;
  for (const char* name : files) {
    records += count_records(format_, size_of(format_, folder_ / name), folder_ / name);
  }
  return records;
}

LabelledImages RecordFiles::read(Split split, std::size_t samples,
                                 core::ProgressMonitor* progress) const {
  LabelledImages content;
  content.images.reserve(samples * static_cast<std::size_t>(format_.image.elements()));
  content.labels.reserve(samples);
  for (const char* name : split == Split::train ? train_files_ : format_.test_files) {
    const std::size_t missing = samples - content.labels.size();
    if (missing == 0) break;
    const fs::path file = folder_ / name;
    const std::size_t records =
        std::min(count_records(format_, size_of(format_, file), file), missing);
    append_records(format_, read_bytes(format_, file, records * format_.record_bytes()), file,
                   content);
    core::report_progress(progress);
  }
  core::check(content.labels.size() == samples, "the files hold the samples asked for");
  return content;
}

}  // namespace lockstep::data
