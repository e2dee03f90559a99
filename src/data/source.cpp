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

namespace {

constexpr std::array registry{
    SourceEntry{"cifar10", "cifar10:DIR", "CIFAR-10, directory with the binary files",
                &open_cifar10},
    SourceEntry{"cifar100", "cifar100:DIR",
                "CIFAR-100 with its fine labels, directory with the binary files", &open_cifar100},
    SourceEntry{"synthetic", "synthetic:N@CxHxW/CLASSES",
                "N generated images [10000] of the shape CxHxW [3x32x32] in CLASSES classes [10]",
                &open_synthetic},
};

}  // namespace

std::span<const SourceEntry> source_entries() { return registry; }

void fail_source(const std::string& value) {
  std::vector<std::string_view> forms;
  std::ranges::transform(registry, std::back_inserter(forms), &SourceEntry::syntax);
  core::fail(core::ExitStatus::usage, fmt::format("--data {}: unknown source; use one of {}", value,
                                                  fmt::join(forms, ", ")));
}

std::unique_ptr<Source> open_source(const std::string& value, std::uint64_t seed) {
  const std::size_t length = std::min(value.find_first_of(":@/"), value.size());
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
