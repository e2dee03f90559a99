// SPDX-License-Identifier: BSD-3-Clause
// Registry of the datasets, and the functions that open and load any of them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "digest.hpp"
#include "hdf5_source.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_kind.hpp"
#include "lockstep/data/dataset.hpp"
#include "record_files.hpp"
#include "source.hpp"
#include "synthetic.hpp"

namespace lockstep::data {

namespace {

/// Returns the number of images to use: `wanted`, or all that were found if it is 0.
std::size_t first(std::int64_t given, std::size_t found, std::string_view option,
                  const std::string& source) {
  const auto wanted = static_cast<std::size_t>(given);
  if (wanted > found) {
    core::fail(core::ExitStatus::usage, fmt::format("--{} {}: {} holds only {}; ask for at most {}",
                                                    option, wanted, source, found, found));
  }
  return wanted == 0 ? found : wanted;
}

DataSizes sizes_of(const Source& source, const DataOptions& options) {
  DataSizes sizes{.info = source.info()};
  sizes.train =
      first(options.train_samples, source.size(Split::train), "train-samples", options.source);
  sizes.test =
      first(options.test_samples, source.size(Split::test), "test-samples", options.source);
  const auto image_bytes = static_cast<std::uint64_t>(sizes.info.image.elements());
  sizes.memory_bytes = (sizes.train + sizes.test) * (image_bytes + sizeof(std::int32_t));
  return sizes;
}

std::size_t name_length(std::string_view value) {
  return std::min(value.find_first_of(":@/"), value.size());
}

/// Returns `name` in lower case without '-', '_' and blanks, in which "CIFAR-10" is "cifar10".
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return plain == "h5" ? "hdf5" : plain;
}

/// Returns the source that reads the existing path `place`.
std::string source_of(const std::string& place) {
  for (const RecordFormat& format : published_formats()) {
    if (has_records(format, place)) return fmt::format("{}:{}", format.name, place);
  }
  const std::string_view kind = core::file_kind(place);
  const bool may_be_published = kind == "a folder" || kind.ends_with(" archive");
  return fmt::format("{}:{}", may_be_published ? published_formats().front().name : "hdf5", place);
}

/// Returns the value of --data that `value` probably means; an empty text if it is not known.
std::string intended(const std::string& value) {
  const std::string_view name = std::string_view(value).substr(0, name_length(value));
  const std::string_view rest = std::string_view(value).substr(name.size());
  std::error_code ignored;
  for (const SourceEntry& entry : source_entries()) {
    if (plain_name(name) != entry.name) continue;
    const bool needs_path =
        entry.syntax.find(':') != std::string::npos && entry.name != "synthetic";
    if (!needs_path || (rest.size() > 1 && rest.front() == ':'))
      return fmt::format("{}{}", entry.name, rest);
    if (!std::filesystem::exists(value, ignored)) return entry.syntax;
  }
  return std::filesystem::exists(value, ignored) ? source_of(value) : "";
}

}  // namespace

const std::vector<SourceEntry>& source_entries() {
  static const std::vector<SourceEntry> entries = [] {
    std::vector<SourceEntry> all;
    for (const RecordFormat& format : published_formats()) {
      all.push_back({.name = format.name,
                     .syntax = fmt::format("{}:DIR", format.name),
                     .help = format.help,
                     .open = [&format](const SourceRequest& request) {
                       return std::make_unique<RecordFiles>(format, request);
                     }});
    }
    all.push_back({.name = "hdf5",
                   .syntax = "hdf5:FILE",
                   .help = "own images, a file that lockstep-data writes",
                   .open = open_hdf5});
    all.push_back({.name = "synthetic",
                   .syntax = "synthetic:N@CxHxW/CLASSES",
                   .help = "N generated images [10000] of the shape CxHxW [3x32x32] in CLASSES "
                           "classes [10]",
                   .open = open_synthetic});
    return all;
  }();
  return entries;
}

void fail_source(const std::string& value) {
  std::vector<std::string_view> forms;
  std::ranges::transform(source_entries(), std::back_inserter(forms), &SourceEntry::syntax);
  const std::string meant = intended(value);
  core::fail(
      core::ExitStatus::usage,
      fmt::format("--data {}: unknown source; use one of {}{}", value, fmt::join(forms, ", "),
                  meant.empty() ? "" : fmt::format("; did you mean --data {}?", meant)));
}

std::unique_ptr<Source> open_source(const std::string& value, std::uint64_t seed) {
  const std::size_t length = name_length(value);
  const std::string_view name = std::string_view(value).substr(0, length);
  const auto entry = std::ranges::find(source_entries(), name, &SourceEntry::name);
  if (entry == source_entries().end()) fail_source(value);
  return entry->open(
      {.value = value, .parameters = std::string_view(value).substr(length), .seed = seed});
}

std::vector<std::string> source_syntaxes() {
  std::vector<std::string> texts;
  for (const SourceEntry& entry : source_entries()) {
    texts.push_back(fmt::format("{} ({})", entry.syntax, entry.help));
  }
  return texts;
}

DataSizes sizes(const DataOptions& options) {
  return sizes_of(*open_source(options.source, options.seed), options);
}

TrainingData load(const DataOptions& options) {
  const auto source = open_source(options.source, options.seed);
  const DataSizes wanted = sizes_of(*source, options);
  const auto read = [&](Split split, std::size_t samples) {
    return std::make_unique<const Dataset>(source->info(),
                                           source->read(split, samples, options.progress));
  };
  TrainingData data{.train = read(Split::train, wanted.train),
                    .test = read(Split::test, wanted.test),
                    .digest = {}};
  core::report_progress(options.progress);
  data.digest = digest(*data.train, *data.test);
  return data;
}

}  // namespace lockstep::data
