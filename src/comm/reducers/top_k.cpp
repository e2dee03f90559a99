// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "../all_reduce/resources.hpp"
#include "../elements.hpp"
#include "lockstep/core/error.hpp"
#include "registry.hpp"

// Gradient sparsification with error feedback: Y. Lin et al., "Deep Gradient Compression", ICLR
// 2018 (without its momentum correction and warm-up); D. Alistarh et al., "The convergence of
// sparsified gradient methods", NeurIPS 2018.
namespace lockstep::comm {

namespace {

/// A gradient in a message.
struct Entry {
  std::uint32_t index = 0;  ///< in the bucket
  float value = 0;
};

/// Returns how many of `elements` gradients a rank sends, the same number on every rank.
std::size_t sent_elements(std::size_t elements, double density) {
  const auto wanted = static_cast<std::size_t>(std::ceil(density * static_cast<double>(elements)));
  return std::clamp<std::size_t>(wanted, 1, elements);
}

/// Returns bits that order finite values by their magnitudes, and NaN after all of them.
std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU; }

bool is_larger(float a, float b) { return magnitude(a) > magnitude(b); }

/// Every rank adds its gradients to its residual, sends the entries of the residual with the
/// largest magnitudes to all other ranks, and sets them to 0 in the residual. The sum has the
/// entries of all ranks, added in rank order. Request 2 p receives from the rank that follows p + 1
/// ranks after this one, request 2 p + 1 sends to it.
class TopKSum final : public AllReduce {
 public:
  TopKSum(MessageRoute route, std::span<float> values, std::span<float> residual, double density)
      : route_(std::move(route)),
        values_(values),
        residual_(residual),
        sent_(sent_elements(values.size(), density)),
        entries_(sent_ * route_.ranks),
        requests_(2 * (route_.ranks - 1)) {}

  void start() override {
    core::check(pending_ == 0, "an all-reduce is started while its last sum is in progress");
    select();
    for (std::size_t p = 0; p + 1 < route_.ranks; ++p) {
      const std::size_t peer = (route_.rank + p + 1) % route_.ranks;
      const std::span<Entry> from = entries_of(peer), own = entries_of(route_.rank);
      check_mpi(
          MPI_Irecv(from.data(), static_cast<int>(from.size_bytes()), MPI_BYTE,
                    static_cast<int>(peer), *route_.first_tag, route_.comm, &requests_[2 * p]),
          "MPI_Irecv");
      check_mpi(
          MPI_Isend(own.data(), static_cast<int>(own.size_bytes()), MPI_BYTE,
                    static_cast<int>(peer), *route_.first_tag, route_.comm, &requests_[2 * p + 1]),
          "MPI_Isend");
    }
    pending_ = 2 * (route_.ranks - 1);
  }

  bool progress() override {
    while (pending_ > 0) {
      if (!requests_.take_completed([this](std::size_t) { --pending_; })) return false;
      if (pending_ == 0) add_entries();
    }
    return true;
  }

  Traffic traffic() const override {
    const auto bytes = static_cast<double>(sent_ * sizeof(Entry) * (route_.ranks - 1));
    return {.sent_bytes = bytes, .received_bytes = bytes};
  }

 private:
  std::span<Entry> entries_of(std::size_t rank) {
    return std::span(entries_).subspan(rank * sent_, sent_);
  }

  /// Moves the entries of this rank from its residual to its message. The gradients are
  /// overwritten.
  void select() {
    add(values_, residual_);
    const std::span<Entry> own = entries_of(route_.rank);
    std::ranges::copy(residual_, values_.begin());
    const auto last = values_.begin() + static_cast<std::ptrdiff_t>(sent_) - 1;
    std::ranges::nth_element(values_, last, is_larger);
    const float threshold = *last;
    // All entries beyond the threshold, and as many at the threshold as fit.
    const auto above = static_cast<std::size_t>(std::ranges::count_if(
        values_.first(sent_), [&](float value) { return is_larger(value, threshold); }));
    std::size_t equal = sent_ - above, next = 0;
    for (std::size_t i = 0; i < residual_.size(); ++i) {
      const bool is_above = is_larger(residual_[i], threshold);
      const bool is_equal = !is_above && !is_larger(threshold, residual_[i]) && equal > 0;
      if (!is_above && !is_equal) continue;
      if (is_equal) --equal;
      own[next++] = {static_cast<std::uint32_t>(i), std::exchange(residual_[i], 0.0F)};
    }
  }

  void add_entries() {
    std::ranges::fill(values_, 0.0F);
    for (const Entry& entry : entries_) values_[entry.index] += entry.value;
  }

  MessageRoute route_;
  std::span<float> values_, residual_;
  std::size_t sent_;            ///< entries that each rank sends
  std::vector<Entry> entries_;  ///< (rank, entry)
  Requests requests_;
  std::size_t pending_ = 0;  ///< messages that are not complete
};

}  // namespace

ReducerEntry top_k_reducer() {
  return {
      .kind = ReducerKind("top-k"),
      .help =
          "after it, only the 1 % of each bucket with the largest magnitudes; the "
          "rest is added to the next step; GPUs: with --transport staged",
      .algorithm = AllReduceAlgorithm("sparse-all-gather"),
      .make_sum = [](AllReduceResources& resources, std::span<float> values, std::span<float> state,
                     const ReducerOptions& options) -> std::unique_ptr<AllReduce> {
        return std::make_unique<TopKSum>(resources.route(), values, state, options.density);
      },
      .bytes_of =
          [](std::size_t elements, const ReducerOptions& options) {
            return sent_elements(elements, options.density) * sizeof(Entry);
          },
      .has_state = true,
      .is_exact = false};
}

}  // namespace lockstep::comm
