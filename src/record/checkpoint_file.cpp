// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::record {

CheckpointDigest::CheckpointDigest(CheckpointHeader header) {
  digest_.add(fmt::format("{} {}", checkpoint_format, checkpoint_version));
  const auto add_sorted = [&](auto& pairs) {
    std::ranges::sort(pairs);
    for (const auto& [name, value] : pairs) {
      digest_.add(name);
      digest_.add(value);
    }
  };
  add_sorted(header.counters);
  add_sorted(header.texts);
}

void CheckpointDigest::add(std::string_view group, std::string_view name,
                           std::span<const std::int64_t> shape, std::span<const float> values) {
  for (const std::string_view text : {group, name, std::string_view("float32")}) digest_.add(text);
  digest_.add(std::as_bytes(shape));
  digest_.add(values);
}

void CheckpointDigest::add(std::string_view group, std::string_view name, std::int64_t count) {
  for (const std::string_view text : {group, name, std::string_view("int64")}) digest_.add(text);
  digest_.add(count);
}

}  // namespace lockstep::record
