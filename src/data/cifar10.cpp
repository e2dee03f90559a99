#include "cifar10.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "lockstep/core/error.hpp"

namespace lockstep::data::cifar10 {

namespace {

namespace fs = std::filesystem;

constexpr std::array train_files{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin"};
constexpr std::array test_files{"test_batch.bin"};
constexpr const char* names_file = "batches.meta.txt";

[[noreturn]] void fail_input(const fs::path& file, const std::string& what) {
  core::fail(core::ExitStatus::input,
             fmt::format("{}: {}; get a fresh copy with jobs/download-cifar10 DIR, or use "
                         "--data synthetic",
                         file.string(), what));
}

// Returns the folder that contains the files: `folder` or the archive's subfolder in it.
fs::path locate(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) fail_input(folder, "no such folder of CIFAR-10 files");
  const fs::path unpacked = folder / "cifar-10-batches-bin";
  const bool here = fs::exists(folder / train_files.front(), ignored);
  return !here && fs::is_directory(unpacked, ignored) ? unpacked : folder;
}

std::uintmax_t size_of(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) {
    fail_input(file, "not a regular file");
  }
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) fail_input(file, fmt::format("cannot be read ({})", error.message()));
  return bytes;
}

// Returns the first `bytes` bytes of a file.
std::vector<std::uint8_t> read_bytes(const fs::path& file, std::size_t bytes) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail_input(file, fmt::format("cannot be opened ({})", std::strerror(errno)));
  std::vector<std::uint8_t> content(bytes);
  stream.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(bytes));
  if (static_cast<std::size_t>(stream.gcount()) != bytes) {
    fail_input(file, fmt::format("only {} of {} bytes could be read", stream.gcount(), bytes));
  }
  return content;
}

std::vector<std::string> read_class_names(const fs::path& folder) {
  const fs::path file = folder / names_file;
  constexpr std::uintmax_t longest = 4096;  // a longer file cannot be a list of ten short names
  const std::uintmax_t bytes = size_of(file);
  if (bytes > longest) {
    fail_input(file, fmt::format("{} bytes, not a list of ten class names", bytes));
  }
  const std::vector<std::uint8_t> text = read_bytes(file, static_cast<std::size_t>(bytes));
  return parse_class_names({text.begin(), text.end()}, file);
}

std::size_t count_all(const fs::path& folder, std::span<const char* const> files) {
  std::size_t records = 0;
  for (const char* name : files) records += count_records(size_of(folder / name), folder / name);
  return records;
}

Dataset read_first(const fs::path& folder, std::span<const char* const> files, std::size_t samples,
                   const std::vector<std::string>& class_names, core::ProgressMonitor* progress) {
  Dataset set{.image = image, .images = {}, .labels = {}, .class_names = class_names};
  set.images.reserve(samples * image_bytes);
  set.labels.reserve(samples);
  for (const char* name : files) {
    if (set.size() == samples) break;
    const fs::path file = folder / name;
    const std::size_t wanted = std::min(count_records(size_of(file), file), samples - set.size());
    append_records(read_bytes(file, wanted * record_bytes), file, set);
    core::report_progress(progress);
  }
  core::check(set.size() == samples, "the files hold the samples asked for");
  return set;
}

}  // namespace

std::size_t count_records(std::uintmax_t bytes, const fs::path& file) {
  if (bytes == 0) fail_input(file, "the file is empty");
  if (bytes > file_records * record_bytes) {
    fail_input(file, fmt::format("{} bytes, more than the {} records of {} bytes a CIFAR-10 file "
                                 "holds",
                                 bytes, file_records, record_bytes));
  }
  if (bytes % record_bytes != 0) {
    fail_input(file, fmt::format("{} bytes, not a multiple of the record's {} (truncated after {} "
                                 "whole records)",
                                 bytes, record_bytes, bytes / record_bytes));
  }
  return static_cast<std::size_t>(bytes / record_bytes);
}

void append_records(std::span<const std::uint8_t> bytes, const fs::path& file, Dataset& to) {
  const std::size_t records = count_records(bytes.size(), file);
  for (std::size_t record = 0; record < records; ++record) {
    const auto content = bytes.subspan(record * record_bytes, record_bytes);
    if (content[0] >= classes) {
      fail_input(file, fmt::format("record {} (counted from 0) has label {}, above {}", record,
                                   content[0], classes - 1));
    }
    to.labels.push_back(content[0]);
    to.images.insert(to.images.end(), content.begin() + 1, content.end());
  }
}

std::vector<std::string> parse_class_names(const std::string& text, const fs::path& file) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);  // the published file ends with an empty line
  }
  if (names.size() != classes) {
    fail_input(file, fmt::format("{} class names instead of {}", names.size(), classes));
  }
  return names;
}

DataSizes sizes(const fs::path& folder) {
  const fs::path place = locate(folder);
  const DataSizes found{.train = count_all(place, train_files),
                        .test = count_all(place, test_files),
                        .image = image,
                        .classes = classes};
  read_class_names(place);
  return found;
}

Sets read(const fs::path& folder, std::size_t train, std::size_t test,
          core::ProgressMonitor* progress) {
  const fs::path place = locate(folder);
  const std::vector<std::string> names = read_class_names(place);
  return {.train = read_first(place, train_files, train, names, progress),
          .test = read_first(place, test_files, test, names, progress)};
}

}  // namespace lockstep::data::cifar10
