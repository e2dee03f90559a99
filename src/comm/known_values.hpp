// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "elements.hpp"
#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// Test values with known sums: small integers that differ between ranks, elements and repeats.
/// With up to 128 ranks every sum is at most 256, which bfloat16 represents exactly.
class KnownValues {
 public:
  KnownValues(int rank, int ranks)
      : rank_(static_cast<std::size_t>(rank)), ranks_(static_cast<std::size_t>(ranks)) {
    period_ = std::clamp<std::size_t>(256 / ranks_ + 1, 2, 97);
  }

  void fill(std::span<float> values, std::size_t repeat) const {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(rank_, i + repeat);
  }

  /// Returns the number of elements of `values` that differ from the sum over the ranks after
  /// rounding to `type`.
  std::uint64_t count_wrong(std::span<const float> values, std::size_t repeat,
                            core::DataType type) const {
    std::vector<float> sums(period_, 0.0F);
    for (std::size_t i = 0; i < period_; ++i) {
      for (std::size_t rank = 0; rank < ranks_; ++rank) sums[i] += value(rank, i);
    }
    std::vector<std::byte> rounded(period_ * core::size_of(type));
    store_floats(sums, type, rounded.data());
    load_floats(rounded.data(), type, sums);
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      wrong += values[i] != sums[(i + repeat) % period_] ? 1 : 0;
    }
    return wrong;
  }

 private:
  float value(std::size_t rank, std::size_t i) const {
    return static_cast<float>((i + rank) % period_);
  }

  std::size_t rank_;
  std::size_t ranks_;
  std::size_t period_;
};

}  // namespace lockstep::comm
