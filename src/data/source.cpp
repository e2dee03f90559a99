#include "source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "in_memory_dataset.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::data {

// Each function is defined in the file of its dataset.
OpenSource open_cifar10;
OpenSource open_cifar100;
OpenSource open_synthetic;
bool has_cifar10(const std::filesystem::path& folder);
bool has_cifar100(const std::filesystem::path& folder);

namespace {

constexpr std::array registry{
    SourceEntry{"cifar10", "cifar10:DIR", "CIFAR-10, directory with the binary files",
                &open_cifar10, &has_cifar10},
    SourceEntry{"cifar100", "cifar100:DIR",
                "CIFAR-100 with its fine labels, directory with the binary files", &open_cifar100,
                &has_cifar100},
    SourceEntry{"synthetic", "synthetic:N@CxHxW/CLASSES",
                "N generated images [10000] of the shape CxHxW [3x32x32] in CLASSES classes [10]",
                &open_synthetic, nullptr},
};

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
  for (const SourceEntry& entry : registry) {
    if (plain(name) != entry.name) continue;
    const bool has_folder = rest.size() > 1 && rest.front() == ':';
    if (entry.has_files == nullptr || has_folder) return fmt::format("{}{}", entry.name, rest);
    return std::string(entry.syntax);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(value, ignored)) return "";
  for (const SourceEntry& entry : registry) {
    if (entry.has_files != nullptr && entry.has_files(value)) {
      return fmt::format("{}:{}", entry.name, value);
    }
  }
  return fmt::format("{}:{}", registry.front().name, value);
}

}  // namespace

std::span<const SourceEntry> source_entries() { return registry; }

void fail_source(const std::string& value) {
  std::vector<std::string_view> forms;
  std::ranges::transform(registry, std::back_inserter(forms), &SourceEntry::syntax);
  std::string advice = intended(value);
  if (!advice.empty()) advice = fmt::format("; did you mean --data {}?", advice);
  core::fail(core::ExitStatus::usage, fmt::format("--data {}: unknown source; use one of {}{}",
                                                  value, fmt::join(forms, ", "), advice));
}

std::unique_ptr<Source> open_source(const std::string& value, std::uint64_t seed) {
  const std::size_t length = name_length(value);
  const std::string_view name = std::string_view(value).substr(0, length);
  const auto entry = std::ranges::find(registry, name, &SourceEntry::name);
  if (entry == registry.end()) fail_source(value);
  return entry->open(
      {.value = value, .parameters = std::string_view(value).substr(length), .seed = seed});
}

std::uint64_t Source::memory_bytes(std::size_t samples) const {
  return InMemoryDataset::bytes(info().image, samples);
}

}  // namespace lockstep::data
