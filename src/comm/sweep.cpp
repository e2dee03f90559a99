#include "lockstep/comm/sweep.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

/// Small integers that differ between ranks, elements and repeats. With up to 128 ranks every sum
/// is at most 256, which bfloat16 holds exactly.
class KnownValues {
 public:
  KnownValues(int rank, int ranks)
      : rank_(static_cast<std::size_t>(rank)), ranks_(static_cast<std::size_t>(ranks)) {
    period_ = std::clamp<std::size_t>(256 / ranks_ + 1, 2, 97);
  }

  void fill(std::span<float> values, std::size_t repeat) const {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(rank_, i + repeat);
  }

  /// How many elements do not hold the sum over the ranks, as it is after travelling as `wire`.
  std::uint64_t count_wrong(std::span<const float> values, std::size_t repeat,
                            core::DataType wire) const {
    std::vector<float> sums(period_, 0.0F);
    for (std::size_t i = 0; i < period_; ++i) {
      for (std::size_t rank = 0; rank < ranks_; ++rank) sums[i] += value(rank, i);
      if (wire == core::DataType::bfloat16) sums[i] = core::to_float(core::to_bfloat16(sums[i]));
    }
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

void check_options(const SweepOptions& options) {
  if (options.min_bytes < sizeof(float) || options.max_bytes < options.min_bytes ||
      options.factor < 2 || options.repeats < 1 || options.warmup < 0) {
    core::fail(core::ExitStatus::usage,
               "the sweep's sizes or counts make no sense; give 4 <= min bytes <= max bytes, a "
               "factor of at least 2 and at least 1 repeat");
  }
}

template <class Sum>
double seconds_of(Communicator& communicator, Sum&& sum) {
  communicator.barrier();
  const auto begin = std::chrono::steady_clock::now();
  sum();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<SweepRow> sweep_one_size(Communicator& communicator, std::span<float> values,
                                     const SweepOptions& options) {
  const KnownValues known(communicator.rank(), communicator.size());
  const std::vector<AllReduceWay> ways = communicator.ways(values, options.wire);
  std::vector<std::unique_ptr<AllReduce>> sums;
  std::vector<SweepRow> rows;
  for (const AllReduceWay way : ways) {
    sums.push_back(communicator.make_all_reduce(values, options.wire, way));
    rows.push_back({std::string(name(way)), values.size_bytes(), {}, 0});
  }
  rows.push_back({"mpi-blocking", values.size_bytes(), {}, 0});
  for (int repeat = -options.warmup; repeat < options.repeats; ++repeat) {
    const auto shift = static_cast<std::size_t>(repeat + options.warmup);
    for (std::size_t way = 0; way < rows.size(); ++way) {
      known.fill(values, shift);
      const bool is_blocking = way == ways.size();
      const double seconds = seconds_of(communicator, [&] {
        if (is_blocking) {
          communicator.sum(values);
        } else {
          sums[way]->start();
          sums[way]->finish();
        }
      });
      const bool travels = !is_blocking && ways[way] != AllReduceWay::shared;
      rows[way].wrong +=
          known.count_wrong(values, shift, travels ? options.wire : core::DataType::float32);
      if (repeat >= 0) rows[way].seconds.push_back(seconds);
    }
  }
  for (SweepRow& row : rows) {
    communicator.maximum(row.seconds);
    auto wrong = static_cast<double>(row.wrong);
    communicator.sum(std::span<double>(&wrong, 1));
    row.wrong = static_cast<std::uint64_t>(wrong);
  }
  return rows;
}

}  // namespace

double algorithm_bandwidth(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds;
}

double bus_bandwidth(std::size_t bytes, double seconds, int ranks) {
  return algorithm_bandwidth(bytes, seconds) * 2.0 * (ranks - 1) / ranks;
}

std::vector<SweepRow> sweep_all_reduce(Communicator& communicator, const SweepOptions& options) {
  check_options(options);
  const core::Buffer buffer = communicator.allocate(options.max_bytes);
  std::vector<SweepRow> rows;
  for (std::size_t bytes = options.min_bytes;;) {
    const std::span<float> values = buffer.as<float>().first(bytes / sizeof(float));
    for (SweepRow& row : sweep_one_size(communicator, values, options)) {
      rows.push_back(std::move(row));
    }
    if (bytes > options.max_bytes / options.factor) return rows;
    bytes *= options.factor;
  }
}

}  // namespace lockstep::comm
