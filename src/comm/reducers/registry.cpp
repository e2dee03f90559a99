// SPDX-License-Identifier: BSD-3-Clause
#include "registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../all_reduce/gather_scatter.hpp"
#include "../all_reduce/registry.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

ReducerEntry top_k_reducer();  // defined in the file of the reducer

namespace {

std::span<const ReducerEntry> registry() {
  static const std::array entries{
      ReducerEntry{.kind = ReducerKind::overlap,
                   .help = "during the backward pass",
                   .start = BucketStart::overlapped},
      ReducerEntry{.kind = ReducerKind::allreduce, .help = "after the backward pass"},
      ReducerEntry{.kind = ReducerKind::gather_scatter,
                   .help = "after it on rank 0, which sends the sums back",
                   .algorithm = AllReduceAlgorithm::gather_scatter},
      // Only the gradients: rank 0 collects them. The training step distributes inputs and
      // parameters.
      ReducerEntry{.kind = ReducerKind::parameter_server,
                   .help = "after it on rank 0, which alone reads the data and updates, as "
                           "DataParallel of PyTorch",
                   .algorithm = AllReduceAlgorithm::gather_scatter,
                   .placement = SumPlacement::rank_0,
                   .make_sum =
                       [](AllReduceResources& resources, std::span<float> values, std::span<float>,
                          const ReducerOptions&) {
                         return make_root_all_reduce(resources.route(), values, RootStages::gather);
                       }},
      top_k_reducer(),
      ReducerEntry{.kind = ReducerKind::none,
                   .help = "never: independent replicas",
                   .start = BucketStart::never}};
  return entries;
}

/// Sums nothing: every gradient is reduced as soon as it is final.
class EmptyReducer final : public GradientReducer {
 public:
  explicit EmptyReducer(std::size_t elements) : elements_(elements) {}

  void begin_step() override {}
  void gradients_ready(std::size_t) override {}
  std::size_t wait_beyond(std::size_t) override { return elements_; }
  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_sizes() const override { return {}; }
  std::span<const BucketTimes> bucket_times() const override { return {}; }
  Traffic traffic() const override { return {}; }

 private:
  std::size_t elements_;
  AllReduceChoice choice_;
};

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

BucketPartition partition_gradients(std::size_t elements, int ranks,
                                    const ReducerOptions& options) {
  const BucketPartition buckets(elements, options.bucket_bytes);
  const bool communicates = ranks > 1 && find_reducer(options.kind).start != BucketStart::never;
  return communicates ? buckets : BucketPartition::without_buckets(elements);
}

std::vector<std::size_t> contributed_bytes(const BucketPartition& buckets,
                                           const ReducerOptions& options) {
  const auto bytes_of = find_reducer(options.kind).bytes_of;
  std::vector<std::size_t> bytes = buckets.bucket_sizes(core::size_of(options.gradient_type));
  if (bytes_of == nullptr) return bytes;
  for (std::size_t b = 0; b < bytes.size(); ++b) bytes[b] = bytes_of(buckets.length(b), options);
  return bytes;
}

std::size_t reducer_memory_bytes(const BucketPartition& buckets, int ranks, int local_ranks,
                                 const ReducerOptions& options) {
  const ReducerEntry& reducer = find_reducer(options.kind);
  std::size_t bytes = reducer.has_state ? buckets.elements() * sizeof(float) : 0;
  for (std::size_t b = 0; b < buckets.count(); ++b) {
    bytes += reducer.bytes_of != nullptr
                 ? reducer.bytes_of(buckets.length(b), options) * static_cast<std::size_t>(ranks)
                 : all_reduce_memory_bytes(algorithm_of(options), buckets.length(b), ranks,
                                           local_ranks, options.gradient_type);
  }
  return bytes;
}

bool keeps_state(ReducerKind kind) { return find_reducer(kind).has_state; }

std::unique_ptr<GradientReducer> make_empty_reducer(std::size_t elements) {
  return std::make_unique<EmptyReducer>(elements);
}

}  // namespace lockstep::comm
