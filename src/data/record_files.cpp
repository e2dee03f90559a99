// SPDX-License-Identifier: BSD-3-Clause
#include "record_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/file_kind.hpp"

namespace lockstep::data {

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

// Throws `Error` (input) about a file of images.
[[noreturn]] void fail_input(const RecordFormat& format, const fs::path& file,
                             const std::string& what) {
  const std::string_view kind = core::file_kind(file);
  const bool is_known = kind != core::unknown_kind && kind != "no file" && kind != "an empty file";
  const std::string found = is_known ? fmt::format("{} (it is {})", what, kind) : what;
  if (is_published(format, file.parent_path())) fail(file, found, fresh_copy(format));
  fail(file, found,
       fmt::format("write records of {} label byte(s) and {} pixel bytes ({}x{}x{}) and nothing "
                   "else, or {}",
                   format.label_classes.size(), format.image.elements(), format.image.channels,
                   format.image.height, format.image.width, fresh_copy(format)));
}

// Returns the first folder or archive in `folder` that `matches`; an empty path if there is none.
template <class Matches>
fs::path find_in(const fs::path& folder, Matches matches) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (matches(at->path())) return at->path();
  }
  return {};
}

// Returns the command that converts the version of the dataset for Python, and the option that
// reads its result.
std::string conversion(const RecordFormat& format, const fs::path& place) {
  return fmt::format(
      "convert it with lockstep-data cifar-python {0} -o {1}.h5, and use --data hdf5:{1}.h5",
      place.string(), format.name);
}

// Returns whether the name is that of an archive of the version for Python, which was published for
// each format whose archive contains a folder.
bool is_python_archive(const RecordFormat& format, const fs::path& path) {
  return !format.archive_folder.empty() &&
         path.filename().string().find("python") != fs::path::string_type::npos;
}

// Throws `Error` (input): `folder` is not one with files of the format. Names what it is instead.
[[noreturn]] void fail_folder(const RecordFormat& format, const fs::path& folder) {
  const auto option = [&](const fs::path& place) {
    return fmt::format("--data {}:{}", format.name, place.string());
  };
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored)) {
    const std::string_view kind = core::file_kind(folder);
    const std::string what = fmt::format("is {}, not a folder of {} files", kind, format.title);
    if (core::is_archive(kind) && is_python_archive(format, folder)) {
      fail(folder, what, conversion(format, folder));
    }
    if (core::is_archive(kind)) {
      fail(folder, what,
           fmt::format("unpack it and name the folder that contains {}: mkdir -p DIR; {} {}{}; "
                       "{}",
                       format.train_files.front(), kind == "a ZIP archive" ? "unzip" : "tar -xf",
                       folder.string(), kind == "a ZIP archive" ? " -d DIR" : " -C DIR",
                       option("DIR")));
    }
    if (fs::exists(folder.parent_path() / format.train_files.front(), ignored) ||
        (folder.parent_path().empty() && fs::exists(format.train_files.front(), ignored))) {
      fail(folder, what,
           "use " + option(folder.parent_path().empty() ? fs::path(".") : folder.parent_path()));
    }
    fail(folder, what, fresh_copy(format));
  }
  if (!fs::exists(folder, ignored)) {
    fail(folder, fmt::format("no such folder of {} files", format.title), fresh_copy(format));
  }
  const std::string what =
      fmt::format("the folder contains no {} of {}", format.train_files.front(), format.title);
  const fs::path below = find_in(folder, [&](const fs::path& path) {
    return fs::is_directory(path, ignored) && has_records(format, path);
  });
  if (!below.empty()) fail(folder, what, "use " + option(below));
  const fs::path archive = find_in(folder, [&](const fs::path& path) {
    return path.filename().string().starts_with("cifar") && core::is_archive(core::file_kind(path));
  });
  if (!archive.empty() && is_python_archive(format, archive)) {
    fail(folder, what, conversion(format, archive));
  }
  if (!archive.empty()) {
    fail(folder, what,
         fmt::format("unpack the archive in it: tar -xf {} -C {}", archive.string(),
                     folder.string()));
  }
  const auto is_pickle = [](const fs::path& path) {
    return core::file_kind(path) == "a Python pickle" || path.filename() == "batches.meta" ||
           path.filename().string().ends_with("-python") ||
           path.filename().string().ends_with("-py");
  };
  if (!format.archive_folder.empty() && !find_in(folder, is_pickle).empty()) {
    fail(folder, what + ", but files of the version for Python", conversion(format, folder));
  }
  fail(folder, what, fresh_copy(format));
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
std::span<const char* const> existing_files(const RecordFormat& format, const fs::path& folder) {
  auto files = format.train_files;
  std::error_code ignored;
  while (files.size() > 1 && !fs::exists(folder / files.back(), ignored)) {
    files = files.first(files.size() - 1);
  }
  return files;
}

std::uintmax_t size_of(const RecordFormat& format, const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) {
    fail_input(format, file, "not a regular file");
  }
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) fail_input(format, file, fmt::format("cannot be read ({})", error.message()));
  return bytes;
}

// Returns the first `bytes` bytes of a file.
std::vector<std::uint8_t> read_bytes(const RecordFormat& format, const fs::path& file,
                                     std::size_t bytes) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    fail_input(format, file, fmt::format("cannot be opened ({})", std::strerror(errno)));
  }
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
      train_files_(existing_files(format, folder_)),
      info_{.name = std::string(format.name),
            .image = format.image,
            .classes = format.classes(),
            .normalisation = format.normalisation,
            .warning = {}},
      train_(count_all(train_files_)),
      test_(count_all(format.test_files)) {
  if (train_files_.size() < format.train_files.size() && is_published(format, folder_)) {
    info_.warning = fmt::format(
        "{} contains {} of the {} files of {}, so the run uses {} training images; for all, get a "
        "fresh copy {}",
        folder_.string(), train_files_.size(), format.train_files.size(), format.title, train_,
        format.advice);
  }
}

std::size_t RecordFiles::count_all(std::span<const char* const> files) const {
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
