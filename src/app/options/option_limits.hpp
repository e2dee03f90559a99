// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "lockstep/data/dataset.hpp"

namespace lockstep::app {

/// Upper bounds of the numeric options. The program multiplies some options; the assertions state
/// that the products of the bounds are representable.
namespace limits {

constexpr std::int64_t images = data::most_images;  ///< of a dataset, and so of a batch
constexpr std::int64_t epochs = 1'000'000;
constexpr std::int64_t steps = epochs * images;
constexpr std::int64_t ranks = 1 << 20;
constexpr std::int64_t classes = data::most_classes;
constexpr std::int64_t threads = 1024;        ///< of OpenMP, per rank
constexpr std::int64_t loader_threads = 256;  ///< per rank, each with a batch of its own
constexpr double seconds = 1e9;               ///< about 32 years, as nanoseconds in 64 bits
constexpr double rate = 1e30;                 ///< learning rate and factors of the update
constexpr double norm = 1e9;
constexpr double bytes = 0x1p50;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
static_assert(images <= largest / steps, "images of a training");
static_assert(images <= largest / ranks, "global batch");
static_assert(steps <= (std::int64_t{1} << std::numeric_limits<double>::digits),
              "steps are represented exactly as double, as in schedules");
static_assert(seconds * 1e9 < static_cast<double>(largest), "times in nanoseconds");
static_assert(rate * static_cast<double>(images) <
                  static_cast<double>(std::numeric_limits<float>::max()),
              "learning rate scaled with the global batch, which is at most that of all images");

}  // namespace limits

/// Permitted values of a number. Every number has finite bounds (`limits`).
struct Range {
  double least;
  double most;
  bool includes_most = true;

  /// `long double` represents every integer of 64 bits.
  bool contains(long double value) const;
  /// Returns a phrase, for example "from 1 to 1000" or "from 0 to below 1".
  std::string describe() const;
};
constexpr Range from_to(double least, double most) { return {least, most}; }
constexpr Range from_to_below(double least, double most) { return {least, most, false}; }

}  // namespace lockstep::app
