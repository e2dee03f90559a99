// SPDX-License-Identifier: BSD-3-Clause
#include "saved_counters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/core/error.hpp"

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

std::string option_that_fits(std::string_view name, std::int64_t saved, int replicas) {
  if (name == "seed") return fmt::format("use --seed {}", static_cast<std::uint64_t>(saved));
  if (name == "global_batch" && saved % replicas == 0)
    return fmt::format("use --global-batch {} instead of --batch-per-rank", saved);
  if (name == "global_batch")
    return fmt::format("use --global-batch {} and a number of ranks that divides it", saved);
  return "use the same --data, --train-samples, --test-samples and --last-batch";
}

void require_optimiser(const record::Counters& counters, optim::Kind now, const fs::path& path) {
  const auto found = std::ranges::find(counters, "optimizer", &record::Counters::value_type::first);
  const auto saved =
      found == counters.end() ? optim::Kind::sgd : static_cast<optim::Kind>(found->second);
  if (saved == now) return;
  core::fail(
      core::ExitStatus::usage,
      fmt::format("{0} is of a run with --optimizer {1}, and this one has {2}; use --optimizer "
                  "{1}, or take its weights with --init-from",
                  path.string(), core::name(saved), core::name(now)));
}

}  // namespace lockstep::train
