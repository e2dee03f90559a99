// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/sweep.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "all_reduce/registry.hpp"
#include "host_sweep.hpp"
#include "known_values.hpp"
#include "lockstep/core/error.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

/// Communicator with a wrong blocking sum of float32 values: the last element is too large by one.
class Broken final : public Communicator {
 public:
  explicit Broken(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int local_rank() const override { return inner_.local_rank(); }
  int local_size() const override { return inner_.local_size(); }
  int host() const override { return inner_.host(); }
  std::string library_version() const override { return inner_.library_version(); }
  const MpiRanks* mpi_ranks() const override { return inner_.mpi_ranks(); }
  void barrier() override { inner_.barrier(); }
  void sum(std::span<double> values) override { inner_.sum(values); }
  void sum(std::span<float> values) override {
    inner_.sum(values);
    values.back() += 1.0F;
  }
  void maximum(std::span<double> values) override { inner_.maximum(values); }
  void broadcast(std::span<std::byte> data) override { inner_.broadcast(data); }
  void gather(std::span<const std::byte> data, std::span<std::byte> all) override {
    inner_.gather(data, all);
  }
  void send(std::span<const std::byte> data, int destination) override {
    inner_.send(data, destination);
  }
  void receive(std::span<std::byte> data, int source) override { inner_.receive(data, source); }
  std::unique_ptr<RepeatedMessage> make_send(std::span<const std::byte> data,
                                             int destination) override {
    return inner_.make_send(data, destination);
  }
  std::unique_ptr<RepeatedMessage> make_receive(std::span<std::byte> data, int source) override {
    return inner_.make_receive(data, source);
  }
  std::unique_ptr<Communicator> split(int colour, int key) override {
    return inner_.split(colour, key);
  }
  std::vector<std::string> all_gather(const std::string& message) override {
    return inner_.all_gather(message);
  }
  [[noreturn]] void abort(int status) noexcept override {
    inner_.abort(status);
    std::abort();
  }

 private:
  Communicator& inner_;
};

SweepOptions small_sweep(core::DataType type) {
  return {.min_bytes = 4,
          .max_bytes = 70'000,
          .factor = 8,
          .repeats = 3,
          .warmup = 1,
          .communication_type = type};
}

TEST(Sweep, TimesEverySizeAndAlgorithmWithCorrectSums) {
  const auto world = make_world();
  AllReduceResources resources{*world};
  for (const auto type : {core::DataType::float32, core::DataType::bfloat16}) {
    const auto rows = sweep_all_reduce(resources, small_sweep(type));
    std::vector<std::size_t> bytes;
    std::set<std::string> algorithms;
    for (const SweepRow& row : rows) {
      algorithms.insert(row.algorithm);
      EXPECT_EQ(row.wrong, 0U) << row.algorithm << ", " << row.bytes() << " bytes";
      EXPECT_EQ(row.seconds.size(), 3U);
      EXPECT_TRUE(std::ranges::all_of(row.seconds, [](double s) { return s >= 0; }));
      if (row.algorithm == "mpi-blocking") bytes.push_back(row.bytes());
      const auto sent = row.algorithm == "direct" ? type : core::DataType::float32;
      if (row.algorithm != "hierarchical") {
        EXPECT_EQ(row.type, sent) << row.algorithm;
      }
    }
    EXPECT_EQ(bytes, (std::vector<std::size_t>{4, 32, 256, 2048, 16384}));
    EXPECT_EQ(rows.size(), algorithms.size() * bytes.size());
    const auto buffer = resources.allocate(4);
    EXPECT_EQ(algorithms.size(),
              1 + available_algorithms(resources, buffer.as<float>(), type).size());
  }
}

TEST(Sweep, EveryRankGetsTheSameRows) {
  const auto world = make_world();
  AllReduceResources resources{*world};
  const auto rows = sweep_all_reduce(resources, small_sweep(core::DataType::float32));
  for (const SweepRow& row : rows) {
    std::vector<double> slowest = row.seconds;
    world->maximum(slowest);
    EXPECT_EQ(slowest, row.seconds);
  }
}

TEST(Sweep, CountsWrongElements) {
  const auto world = make_world();
  Broken broken(*world);
  AllReduceResources resources{broken};
  const auto rows = sweep_all_reduce(resources, small_sweep(core::DataType::float32));
  for (const SweepRow& row : rows) {
    // Only the faulty algorithm has wrong elements: one per repeat and rank, in 4 repeats
    // (including the warm-up).
    EXPECT_EQ(row.wrong,
              row.algorithm == "mpi-blocking" ? 4U * static_cast<unsigned>(world->size()) : 0U);
  }
}

TEST(Sweep, BandwidthsFollowTheirFormulas) {
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(1000, 0.5), 2000.0);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 0.5, 2), 2000.0);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 0.5, 4), 3000.0);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000, 0.5, 1), 0.0);
}

TEST(Sweep, RefusesSizesThatMakeNoSense) {
  const auto self = make_self_communicator();
  AllReduceResources resources{*self};
  for (const SweepOptions& options :
       {SweepOptions{.min_bytes = 2}, SweepOptions{.min_bytes = 64, .max_bytes = 32},
        SweepOptions{.factor = 1}, SweepOptions{.repeats = 0}, SweepOptions{.warmup = -1}}) {
    EXPECT_THROW(sweep_all_reduce(resources, options), core::Error);
  }
}

}  // namespace
}  // namespace lockstep::comm
