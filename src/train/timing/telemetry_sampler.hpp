// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace lockstep::train {

/// Intervals between samples of a run of unknown length. After every `samples_per_interval` samples
/// the interval doubles, until it has reached `longest`, so that the number of samples grows with
/// the logarithm of the duration; later it is one sample per `longest`.
class SamplingIntervals {
 public:
  static constexpr std::size_t samples_per_interval = 4096;
  /// RAPL counters must be read more often than they wrap around (`core::EnergyMeter`).
  static constexpr std::chrono::nanoseconds longest = std::chrono::seconds(60);

  /// `hertz`: number of samples per second at first.
  explicit SamplingIntervals(double hertz);

  /// Counts a sample and returns the time until the next one.
  std::chrono::nanoseconds next();

 private:
  std::chrono::nanoseconds interval_;
  std::size_t samples_ = 0;
};

/// Values with which a source describes a sample.
struct SampleTime {
  double seconds = 0;      ///< since the origin of the clock
  double cpu_seconds = 0;  ///< processor time of the sampling thread before this sample
};

/// A thread that takes samples of a source at regular intervals, from the construction to the
/// destruction. It allocates no memory after the construction. If `most_samples` have been taken
/// since the last call of `take`, further samples are dropped.
class TelemetrySampler {
 public:
  /// Fills the row of a sample. Calls of the source do not overlap.
  using Source = std::function<void(const SampleTime&, std::span<double>)>;

  /// All intervals of `SamplingIntervals` at up to 100 Hz, and the longest one for 5 days.
  static constexpr std::size_t most_samples = std::size_t{1} << 16;

  /// `width`: number of values per sample. `hertz`: samples per second at first, above 0. `origin`:
  /// origin of the clock, a time of `core::host_seconds`.
  TelemetrySampler(std::size_t width, double hertz, double origin, Source source,
                   std::size_t limit = most_samples);

  /// Takes a sample, so that the last interval ends now. Returns (sample, value), all samples since
  /// the last call.
  std::vector<double> take();

 private:
  void run(const std::stop_token& stop);
  void sample(double cpu_seconds);  ///< requires `mutex_`

  const std::size_t width_, limit_;
  const double origin_;
  const Source source_;
  SamplingIntervals intervals_;
  std::mutex mutex_;
  std::condition_variable_any stopping_;
  /// (limit, width), not initialised, so that the memory is only used by the samples.
  std::unique_ptr<double[]> rows_;
  std::size_t count_ = 0;
  double cpu_seconds_ = 0;
  std::jthread thread_;  ///< last member: joined before the members above are destroyed
};

}  // namespace lockstep::train
