// SPDX-License-Identifier: BSD-3-Clause
#include "saved_counters.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"
#include "lockstep/optim/update.hpp"

namespace lockstep::train {

namespace fs = std::filesystem;

std::int64_t counter(const record::Counters& counters, std::string_view name,
                     const fs::path& path) {
  for (const auto& [key, value] : counters) {
    if (key == name) return value;
  }
  core::fail(
      core::ExitStatus::input,
      fmt::format("{} has no counter '{}': weights alone, not a checkpoint to resume from; use "
                  "--init-from",
                  path.string(), name));
}

std::string text_of(std::string_view name, std::int64_t value) {
  if (name == "seed") return fmt::format("{}", static_cast<std::uint64_t>(value));
  if (name == "optimizer") return std::string(core::name(static_cast<optim::Kind>(value)));
  return fmt::format("{}", value);
}

std::string option_that_fits(std::string_view name, std::int64_t saved, int replicas) {
  if (name == "seed" || name == "optimizer")
    return fmt::format("use --{} {}", name, text_of(name, saved));
  if (name == "global_batch" && saved % replicas == 0)
    return fmt::format("use --global-batch {} instead of --batch-per-rank", saved);
  if (name == "global_batch")
    return fmt::format("use --global-batch {} and a number of ranks that divides it", saved);
  return "use the same --data, --train-samples, --test-samples and --last-batch";
}

}  // namespace lockstep::train
