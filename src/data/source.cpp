#include "source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "lockstep/core/error.hpp"
#include "record_files.hpp"

namespace lockstep::data {

// Each is defined in the file of its dataset.
extern const RecordFormat cifar10, cifar100, svhn;

namespace {

constexpr std::array record_formats{&cifar10, &cifar100, &svhn};

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
    const bool has_folder = rest.size() > 1 && rest.front() == ':';
    if (entry.format == nullptr || has_folder) return fmt::format("{}{}", entry.name, rest);
    return entry.syntax;
  }
  std::error_code ignored;
  if (!std::filesystem::exists(value, ignored)) return "";
  for (const RecordFormat* format : record_formats) {
    if (has_records(*format, value)) return fmt::format("{}:{}", format->name, value);
  }
  return fmt::format("{}:{}", record_formats.front()->name, value);
}

}  // namespace

const std::vector<SourceEntry>& source_entries() {
  static const std::vector<SourceEntry> entries = [] {
    std::vector<SourceEntry> all;
    for (const RecordFormat* format : record_formats) {
      all.push_back({format->name, fmt::format("{}:DIR", format->name), format->help, format});
    }
    all.push_back({"synthetic", "synthetic:N@CxHxW/CLASSES",
                   "N generated images [10000] of the shape CxHxW [3x32x32] in CLASSES classes "
                   "[10]",
                   nullptr});
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
  const SourceRequest request{
      .value = value, .parameters = std::string_view(value).substr(length), .seed = seed};
  if (entry->format == nullptr) return open_synthetic(request);
  return std::make_unique<RecordFiles>(*entry->format, request);
}

}  // namespace lockstep::data
