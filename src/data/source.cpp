// SPDX-License-Identifier: BSD-3-Clause
#include "source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/file_kind.hpp"
#include "record_files.hpp"

namespace lockstep::data {

namespace {

/// Returns `text` in lower case without '-' and '_', in which "CIFAR-10" is "cifar10".
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '-' || c == '_') continue;
    result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

std::size_t name_length(std::string_view value) {
  return std::min(value.find_first_of(":@/"), value.size());
}

/// Returns the value that `value` probably means; an empty text if it is not known.
std::string intended(const std::string& value) {
  const std::string_view name = std::string_view(value).substr(0, name_length(value));
  const std::string_view rest = std::string_view(value).substr(name.size());
  for (const SourceEntry& entry : source_entries()) {
    if (plain(name) != entry.name) continue;
    const bool has_path = rest.size() > 1 && rest.front() == ':';
    if (!entry.needs_path || has_path) return fmt::format("{}{}", entry.name, rest);
    return entry.syntax;
  }
  std::error_code ignored;
  if (!std::filesystem::exists(value, ignored)) return "";
  if (core::file_kind(value) == core::hdf5_kind) return "hdf5:" + value;
  for (const RecordFormat& format : published_formats()) {
    if (has_records(format, value)) return fmt::format("{}:{}", format.name, value);
  }
  return fmt::format("{}:{}", published_formats().front().name, value);
}

}  // namespace

const std::vector<SourceEntry>& source_entries() {
  static const std::vector<SourceEntry> entries = [] {
    std::vector<SourceEntry> all;
    for (const RecordFormat& format : published_formats()) {
      all.push_back({.name = format.name,
                     .syntax = fmt::format("{}:DIR", format.name),
                     .help = format.help,
                     .needs_path = true,
                     .open = [&format](const SourceRequest& request) {
                       return std::make_unique<RecordFiles>(format, request);
                     }});
    }
    all.push_back({.name = "hdf5",
                   .syntax = "hdf5:FILE",
                   .help = "own images, a file that lockstep-data writes",
                   .needs_path = true,
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
  std::string advice = intended(value);
  if (!advice.empty()) advice = fmt::format("; did you mean --data {}?", advice);
  core::fail(core::ExitStatus::usage, fmt::format("--data {}: unknown source; use one of {}{}",
                                                  value, fmt::join(forms, ", "), advice));
}

std::unique_ptr<Source> open_source(const std::string& value, std::uint64_t seed) {
  const std::size_t length = name_length(value);
  const std::string_view name = std::string_view(value).substr(0, length);
  const auto entry = std::ranges::find(source_entries(), name, &SourceEntry::name);
  if (entry == source_entries().end()) fail_source(value);
  return entry->open(
      {.value = value, .parameters = std::string_view(value).substr(length), .seed = seed});
}

std::filesystem::path path_of(const SourceRequest& request) {
  if (request.parameters.size() < 2 || request.parameters.front() != ':') {
    fail_source(request.value);
  }
  return request.parameters.substr(1);
}

bool is_supported(core::ImageShape image) {
  const auto fits = [](std::int64_t extent) { return extent >= 1 && extent <= most_pixels; };
  return fits(image.channels) && fits(image.height) && fits(image.width) &&
         image.elements() <= most_values;
}

}  // namespace lockstep::data
