// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "../elements.hpp"
#include "direct.hpp"
#include "lockstep/core/error.hpp"
#include "registry.hpp"

namespace lockstep::comm {

namespace {

/// Counters that a rank publishes to the other ranks of its host: the all-reduces that it has
/// started (`arrived`) and those for which it has written its part (`done`).
struct alignas(shared_flag_bytes) Flags {
  std::uint64_t arrived = 0, done = 0;
};

/// Creates the all-reduce over the hosts of `part`, which this rank has summed over its own host.
using MakeBetween = std::function<std::unique_ptr<AllReduce>(std::span<float> part)>;

/// Sums float32 arrays in the shared memory of a host. Each array is divided into one part per
/// rank; each rank sums its part over the arrays of all ranks and writes the sum to all of them.
/// There are no other copies and no messages. If `make_between` is given, the part is summed over
/// the hosts with this all-reduce before it is written to the other ranks (hierarchical algorithm).
class SharedMemoryAllReduce final : public AllReduce {
 public:
  /// `values` must be in shared memory. Collective: all ranks must call this.
  SharedMemoryAllReduce(AllReduceResources& resources, std::span<float> values,
                        const MakeBetween& make_between = {})
      : array_(resources.place_of(values)),
        flags_(resources.take_flags()),
        rank_(static_cast<std::size_t>(resources.ranks().local_rank())) {
    const std::size_t elements = values.size();
    const auto at = [](const SharedPlace& place, int peer) {
      return place.memory->part(peer).subspan(place.offset).data();
    };
    for (int peer = 0; peer < resources.ranks().local_size(); ++peer) {
      arrays_.emplace_back(reinterpret_cast<float*>(at(array_, peer)), elements);
      peers_.push_back(reinterpret_cast<Flags*>(at(flags_, peer)));
    }
    // Parts consist of whole cache lines (16 values), so that no two ranks write to the same line.
    constexpr std::size_t line = 16;
    const std::size_t lines = (elements + line - 1) / line;
    const auto begin_of = [&](std::size_t r) {
      return std::min(lines * r / arrays_.size() * line, elements);
    };
    begin_ = begin_of(rank_);
    count_ = begin_of(rank_ + 1) - begin_;
    if (make_between) between_ = make_between(part_of(rank_));
  }

  void start() override {
    core::check(stage_ == Stage::idle,
                "an all-reduce is started while its last sum is in progress");
    ++round_;
    tell(&Flags::arrived);
    stage_ = Stage::gathering;
  }

  bool progress() override {
    if (stage_ == Stage::gathering && all_are(&Flags::arrived)) {
      if (between_) {
        sum_part(false);
        between_->start();
        stage_ = Stage::between;
      } else {
        sum_part(true);
        become_done();
      }
    }
    if (stage_ == Stage::between && between_->progress()) {
      for (std::size_t peer = 0; peer < arrays_.size(); ++peer) {
        if (peer != rank_) std::ranges::copy(part_of(rank_), part_of(peer).begin());
      }
      become_done();
    }
    if (stage_ == Stage::done && all_are(&Flags::done)) stage_ = Stage::idle;
    return stage_ == Stage::idle;
  }

  Traffic traffic() const override { return between_ ? between_->traffic() : Traffic{}; }

 private:
  enum class Stage { idle, gathering, between, done };

  std::span<float> part_of(std::size_t peer) const { return arrays_[peer].subspan(begin_, count_); }

  /// Publishes that this rank has reached the current round.
  void tell(std::uint64_t Flags::*what) {
    std::atomic_ref(peers_[rank_]->*what).store(round_, std::memory_order_release);
  }
  /// Returns whether all ranks of the host have reached the current round.
  bool all_are(std::uint64_t Flags::*what) const {
    return std::ranges::all_of(peers_, [&](Flags* peer) {
      return std::atomic_ref(peer->*what).load(std::memory_order_acquire) >= round_;
    });
  }
  void become_done() {
    tell(&Flags::done);
    stage_ = Stage::done;
  }

  /// Sums the part of this rank over the ranks of the host, in rank order, and writes the sum to
  /// the arrays of all ranks or only to its own.
  void sum_part(bool write_to_all) {
    std::array<float, 2048> block;  // fits in the L1 cache
    for (std::size_t at = 0; at < count_; at += block.size()) {
      const std::size_t count = std::min(block.size(), count_ - at);
      const std::span<float> sum(block.data(), count);
      std::ranges::copy(part_of(0).subspan(at, count), sum.begin());
      for (std::size_t peer = 1; peer < arrays_.size(); ++peer)
        add(part_of(peer).subspan(at, count), sum);
      for (std::size_t peer = 0; peer < arrays_.size(); ++peer) {
        if (write_to_all || peer == rank_)
          std::ranges::copy(sum, part_of(peer).subspan(at, count).begin());
      }
    }
  }

  SharedPlace array_, flags_;
  std::size_t rank_;
  std::vector<std::span<float>> arrays_;  ///< arrays of all ranks of the host
  std::vector<Flags*> peers_;
  std::size_t begin_ = 0, count_ = 0;  ///< part of this rank, in elements
  std::unique_ptr<AllReduce> between_;
  std::uint64_t round_ = 0;
  Stage stage_ = Stage::idle;
};

}  // namespace

AllReduceEntry shared_memory_all_reduce() {
  return {.algorithm = AllReduceAlgorithm::shared_memory,
          .help = "on one host",
          .types = CommunicationTypes::none,
          .shares_memory = true,
          .obstacle = [](const AllReduceConditions& conditions) -> std::string_view {
            if (!conditions.is_one_host) return "it needs all ranks on one host";
            return conditions.is_shared ? "" : "the ranks of this host cannot share memory";
          },
          .make = [](AllReduceResources& resources, std::span<float> values,
                     core::DataType) -> std::unique_ptr<AllReduce> {
            return std::make_unique<SharedMemoryAllReduce>(resources, values);
          }};
}

AllReduceEntry hierarchical_all_reduce() {
  return {
      .algorithm = AllReduceAlgorithm::hierarchical,
      .help = "shared-memory within hosts, direct between hosts",
      .types = CommunicationTypes::any,
      .shares_memory = true,
      .obstacle = [](const AllReduceConditions& conditions) -> std::string_view {
        if (conditions.is_one_host) return "it needs ranks on several hosts";
        if (conditions.is_shared) return "";
        return "it needs the same number of ranks, at least 2, on each host, and memory that they "
               "can share";
      },
      .workspace_bytes = direct_workspace_bytes,
      .make = [](AllReduceResources& resources, std::span<float> values,
                 core::DataType communication_type) -> std::unique_ptr<AllReduce> {
        return std::make_unique<SharedMemoryAllReduce>(
            resources, values, [&](std::span<float> part) {
              return make_direct_all_reduce(resources.route_between_hosts(), part,
                                            communication_type);
            });
      }};
}

}  // namespace lockstep::comm
