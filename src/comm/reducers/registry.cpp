// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_reducer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

// One function per reducer, defined in the file of the reducer.
ReducerEntry overlap_reducer();
ReducerEntry allreduce_reducer();
ReducerEntry gather_scatter_reducer();
ReducerEntry parameter_server_reducer();
ReducerEntry top_k_reducer();
ReducerEntry none_reducer();

namespace {

std::span<const ReducerEntry> registry() {
  static const std::array entries{overlap_reducer(),        allreduce_reducer(),
                                  gather_scatter_reducer(), parameter_server_reducer(),
                                  top_k_reducer(),          none_reducer()};
  return entries;
}

}  // namespace

const ReducerEntry& find_reducer(ReducerKind kind) {
  const auto found = std::ranges::find(registry(), kind, &ReducerEntry::kind);
  core::check(found != registry().end(), "a gradient reducer that is not registered");
  return *found;
}

std::span<const core::NamedValue<ReducerKind>> named_values(ReducerKind) {
  static const auto values = [] {
    std::vector<core::NamedValue<ReducerKind>> table;
    for (const ReducerEntry& entry : registry())
      table.push_back({entry.kind, entry.kind.name(), entry.help});
    return table;
  }();
  return values;
}

AllReduceAlgorithm algorithm_of(const ReducerOptions& options) {
  const auto own = find_reducer(options.kind).algorithm;
  if (!own) return options.algorithm;
  if (options.algorithm == AllReduceAlgorithm::automatic || options.algorithm == *own) return *own;
  core::fail(core::ExitStatus::usage,
             fmt::format("--reducer {} has its own algorithm, {}, and excludes --all-reduce {}; "
                         "remove one of the two options",
                         options.kind.name(), own->name(), options.algorithm.name()));
}

bool starts_late(ReducerKind kind) { return find_reducer(kind).make == make_late_reducer; }

BucketPartition partition_gradients(std::size_t elements, int ranks,
                                    const ReducerOptions& options) {
  const BucketPartition buckets(elements, options.bucket_bytes);
  const bool communicates = ranks > 1 && find_reducer(options.kind).make != nullptr;
  return communicates ? buckets : BucketPartition::without_buckets(elements);
}

std::vector<std::size_t> contributed_bytes(const BucketPartition& buckets,
                                           const ReducerOptions& options) {
  const auto bytes_of = find_reducer(options.kind).bytes_of;
  std::vector<std::size_t> bytes = buckets.bucket_bytes(core::size_of(options.gradient_type));
  if (bytes_of == nullptr) return bytes;
  for (std::size_t b = 0; b < bytes.size(); ++b) bytes[b] = bytes_of(buckets.length(b), options);
  return bytes;
}

std::size_t reducer_memory_bytes(const BucketPartition& buckets, int ranks,
                                 const ReducerOptions& options) {
  const ReducerEntry& reducer = find_reducer(options.kind);
  std::size_t bytes = reducer.has_state ? buckets.elements() * sizeof(float) : 0;
  for (std::size_t b = 0; b < buckets.count(); ++b) {
    bytes += reducer.bytes_of != nullptr
                 ? reducer.bytes_of(buckets.length(b), options) * static_cast<std::size_t>(ranks)
                 : all_reduce_workspace_bytes(algorithm_of(options), buckets.length(b), ranks,
                                              options.gradient_type);
  }
  return bytes;
}

bool keeps_state(ReducerKind kind) { return find_reducer(kind).has_state; }

std::unique_ptr<GradientReducer> make_reducer(ReducerKind kind,
                                              std::unique_ptr<BucketTransport> transport) {
  return find_reducer(kind).make(std::move(transport));
}

}  // namespace lockstep::comm
