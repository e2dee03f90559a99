#include "record_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::data {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_input(const RecordFormat& format, const fs::path& file,
                             const std::string& what) {
  core::fail(core::ExitStatus::input,
             fmt::format("{}: {}; get a fresh copy {}, or use --data synthetic", file.string(),
                         what, format.advice));
}

fs::path folder_of(const SourceRequest& request) {
  if (request.parameters.size() < 2 || request.parameters.front() != ':') {
    fail_source(request.value);
  }
  return request.parameters.substr(1);
}

// Returns the folder that contains the files: `folder` or the archive's subfolder in it.
fs::path locate(const RecordFormat& format, const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    fail_input(format, folder, fmt::format("no such folder of {} files", format.title));
  }
  const fs::path unpacked = folder / format.archive_folder;
  const bool here = fs::exists(folder / format.train_files.front(), ignored);
  return !here && fs::is_directory(unpacked, ignored) ? unpacked : folder;
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

std::vector<std::string> read_class_names(const RecordFormat& format, const fs::path& folder) {
  if (format.class_names_file == nullptr) return {};
  const fs::path file = folder / format.class_names_file;
  constexpr std::uintmax_t longest = 4096;  // a longer file cannot be a list of short names
  const std::uintmax_t bytes = size_of(format, file);
  if (bytes > longest) {
    fail_input(format, file,
               fmt::format("{} bytes, not a list of {} class names", bytes, format.classes()));
  }
  const auto text = read_bytes(format, file, static_cast<std::size_t>(bytes));
  return parse_class_names(format, {text.begin(), text.end()}, file);
}

}  // namespace

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

std::vector<std::string> parse_class_names(const RecordFormat& format, const std::string& text,
                                           const fs::path& file) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);  // published files end with an empty line
  }
  if (std::ssize(names) != format.classes()) {
    fail_input(format, file,
               fmt::format("{} class names instead of {}", names.size(), format.classes()));
  }
  return names;
}

RecordFiles::RecordFiles(const RecordFormat& format, const SourceRequest& request)
    : format_(format),
      folder_(locate(format, folder_of(request))),
      info_{.name = std::string(format.name),
            .image = format.image,
            .classes = format.classes(),
            .class_names = {},
            .normalisation = format.normalisation},
      train_(count_all(format.train_files)),
      test_(count_all(format.test_files)) {
  info_.class_names = read_class_names(format, folder_);
}

std::size_t RecordFiles::count_all(std::span<const char* const> files) const {
  std::size_t records = 0;
  for (const char* name : files) {
    records += count_records(format_, size_of(format_, folder_ / name), folder_ / name);
  }
  return records;
}

std::unique_ptr<const Dataset> RecordFiles::read(Split split, std::size_t samples,
                                                 core::ProgressMonitor* progress) const {
  LabelledImages content;
  content.images.reserve(samples * static_cast<std::size_t>(format_.image.elements()));
  content.labels.reserve(samples);
  for (const char* name : split == Split::train ? format_.train_files : format_.test_files) {
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
  return std::make_unique<InMemoryDataset>(info_, std::move(content));
}

}  // namespace lockstep::data
