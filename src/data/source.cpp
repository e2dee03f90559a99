// SPDX-License-Identifier: BSD-3-Clause
#include "source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "lockstep/core/error.hpp"
#include "record_files.hpp"

namespace lockstep::data {

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
  core::fail(core::ExitStatus::usage, fmt::format("--data {}: unknown source; use one of {}", value,
                                                  fmt::join(forms, ", ")));
}

std::unique_ptr<Source> open_source(const std::string& value, std::uint64_t seed) {
  const std::size_t length = std::min(value.find_first_of(":@/"), value.size());
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
