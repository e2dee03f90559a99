// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/gradient_transport.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "all_reduce/registry.hpp"
#include "count_allocations.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "reducers/registry.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

/// Returns the gradient of `element` on `rank` in step `step`: an integer, so that every sum over
/// the ranks is exact in float32.
float gradient(int rank, std::size_t element, int step) {
  return static_cast<float>((element * 7 + static_cast<std::size_t>(rank * 3 + step)) % 1000);
}

/// A reducer of gradients in host memory, with its transport and the timeline of a step.
class HostReducer {
 public:
  HostReducer(Communicator& communicator, std::span<float> gradients, const ReducerOptions& options)
      : transport_(make_gradient_transport(communicator, core::DeviceQueue{}, {})),
        reducer_(transport_->make_reducer(
            {reinterpret_cast<std::byte*>(gradients.data()), gradients.size()}, options,
            timeline_)) {}

  GradientReducer& operator*() { return *reducer_; }
  GradientReducer* operator->() { return reducer_.get(); }
  void begin_step() {
    timeline_.record(core::Timeline::start);
    reducer_->begin_step();
  }

 private:
  core::HostTimeline timeline_;
  std::unique_ptr<GradientTransport> transport_;
  std::unique_ptr<GradientReducer> reducer_;
};

/// Simulates the backward pass of one step: fills the buffer from the front in portions of random
/// size and notifies the reducer after each portion.
void backward(HostReducer& reducer, std::span<float> gradients, int rank, int step,
              core::Random& random) {
  reducer.begin_step();
  std::size_t filled = 0;
  while (filled < gradients.size()) {
    const std::size_t end = std::min<std::size_t>(gradients.size(), filled + random.below(60'000));
    for (; filled < end; ++filled) gradients[filled] = gradient(rank, filled, step);
    reducer->gradients_ready(filled);
  }
}

std::size_t count_wrong_sums(std::span<const float> gradients, int ranks, int step) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += gradient(rank, i, step);
    wrong += gradients[i] != sum ? 1 : 0;
  }
  return wrong;
}

/// Returns whether rank `rank` receives the sums; the gradients of the others are undefined.
bool receives_sums(ReducerKind kind, int rank) {
  return kind != ReducerKind::none && (kind != ReducerKind::parameter_server || rank == 0);
}

bool has_own_algorithm(ReducerKind kind) {
  return algorithm_of({.kind = kind}) != AllReduceAlgorithm::automatic;
}

/// Returns what is lost if `sums` and what the reducers of all ranks keep do not contain all
/// gradients of the steps up to `step`.
double missing(const Communicator& world, std::span<const double> sums, std::span<const float> kept,
               int step) {
  double most = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    double wanted = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      for (int s = 0; s <= step; ++s) wanted += gradient(rank, i, s);
    }
    most = std::max(most, std::abs(wanted - sums[i] - kept[i]));
  }
  return most;
}

class ReducerTest : public testing::TestWithParam<ReducerKind> {
 protected:
  /// Random numbers that are equal on all ranks, for the sizes of the buffer and the buckets; `own`
  /// differs from rank to rank and gives the sizes of the portions.
  core::Random common{3, core::RandomStream::test};
  std::unique_ptr<Communicator> world = make_world();
  core::Random own{4, core::RandomStream::test, static_cast<std::uint64_t>(world->rank())};
};

TEST_P(ReducerTest, SumsEveryStepForAnyBuckets) {
  const bool has_sums = receives_sums(GetParam(), world->rank());
  for (int layout = 0; layout < 4; ++layout) {
    std::vector<float> gradients(1 + common.below(400'000));
    const std::size_t bucket_bytes = 4 * (1 + common.below(150'000)) + common.below(4);
    HostReducer reducer(*world, gradients, {.kind = GetParam(), .bucket_bytes = bucket_bytes});
    for (int step = 0; step < 3; ++step) {
      backward(reducer, gradients, world->rank(), step, own);
      reducer->finish();
      if (!find_reducer(GetParam()).is_exact) continue;  // see the next test
      if (has_sums) {
        EXPECT_EQ(count_wrong_sums(gradients, world->size(), step), 0U);
      } else if (GetParam() == ReducerKind::none) {
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          ASSERT_EQ(gradients[i], gradient(world->rank(), i, step));
        }
      }
    }
  }
}

TEST_P(ReducerTest, InexactSumsAreEqualOnAllRanksAndLoseNothing) {
  if (find_reducer(GetParam()).is_exact) return;
  std::vector<float> gradients(100'000);
  HostReducer reducer(*world, gradients, {.kind = GetParam(), .bucket_bytes = 4 * 30'000});
  std::vector<double> sums(gradients.size());
  for (int step = 0; step < 5; ++step) {
    backward(reducer, gradients, world->rank(), step, own);
    reducer->finish();
    std::vector<float> of_root = gradients;
    broadcast(*world, of_root);
    EXPECT_EQ(gradients, of_root);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradients[i];
    const auto state = reducer->state();
    std::vector<float> kept(state.begin(), state.end());
    kept.resize(gradients.size());
    world->sum(std::span<float>(kept));
    EXPECT_EQ(missing(*world, sums, kept, step), 0);  // integers below 2^24
  }
}

TEST_P(ReducerTest, BucketsCoverTheBufferInOrder) {
  std::vector<float> gradients(1000);
  HostReducer reducer(*world, gradients, {.kind = GetParam(), .bucket_bytes = 4 * 300});
  const auto bytes = reducer->bucket_sizes();
  const std::vector<std::size_t> got(bytes.begin(), bytes.end());
  if (GetParam() == ReducerKind::none || world->size() == 1) {
    EXPECT_TRUE(got.empty());
    EXPECT_TRUE(reducer->bucket_times().empty());
  } else {
    EXPECT_EQ(got, contributed_bytes(BucketPartition(1000, 4 * 300), {.kind = GetParam()}));
    if (find_reducer(GetParam()).bytes_of == nullptr) {
      EXPECT_EQ(got, (std::vector<std::size_t>{1200, 1200, 1200, 400}));
    }
  }
}

TEST_P(ReducerTest, BucketBytesAreThoseOfTheCommunicatedDataType) {
  if (GetParam() == ReducerKind::none || has_own_algorithm(GetParam()) || world->size() == 1)
    return;
  AllReduceResources resources{*world};
  const core::Buffer probe = resources.allocate(64);
  const auto transport = make_gradient_transport(*world, core::DeviceQueue{}, {});
  const core::Buffer memory = transport->allocate(1000 * sizeof(float));
  core::HostTimeline timeline;
  for (const AllReduceAlgorithm algorithm :
       available_algorithms(resources, probe.as<float>(), core::DataType::bfloat16)) {
    const auto reducer = transport->make_reducer({memory.data(), 1000},
                                                 {.kind = GetParam(),
                                                  .bucket_bytes = 4 * 300,
                                                  .gradient_type = core::DataType::bfloat16,
                                                  .algorithm = algorithm},
                                                 timeline);
    // `shared_memory` reads the float32 memory of the other ranks; the other algorithms send
    // bfloat16.
    const std::size_t element = algorithm == AllReduceAlgorithm::shared_memory ? 4 : 2;
    const auto bytes = reducer->bucket_sizes();
    EXPECT_EQ(
        std::vector<std::size_t>(bytes.begin(), bytes.end()),
        (std::vector<std::size_t>{300 * element, 300 * element, 300 * element, 100 * element}))
        << algorithm.name();
  }
}

TEST_P(ReducerTest, TimesAreThoseOfTheLastStep) {
  std::vector<float> gradients(200'000);
  HostReducer reducer(*world, gradients, {.kind = GetParam(), .bucket_bytes = 4 * 60'000});
  for (int step = 0; step < 2; ++step) {
    reducer.begin_step();
    for (const BucketTimes& times : reducer->bucket_times()) {
      EXPECT_TRUE(std::isnan(times.start_seconds) && std::isnan(times.end_seconds));
    }
    reducer->gradients_ready(59'999);  // one value of the first bucket is missing
    for (const BucketTimes& times : reducer->bucket_times()) {
      EXPECT_TRUE(std::isnan(times.start_seconds));
    }
    reducer->gradients_ready(130'000);
    const auto started = std::ranges::count_if(
        reducer->bucket_times(), [](const BucketTimes& t) { return !std::isnan(t.start_seconds); });
    EXPECT_EQ(started, GetParam() == ReducerKind::overlap && world->size() > 1 ? 2 : 0);
    reducer->finish();
    double last_start = 0;
    for (const BucketTimes& times : reducer->bucket_times()) {
      EXPECT_GE(times.start_seconds, last_start);
      EXPECT_GE(times.end_seconds, times.start_seconds);
      last_start = times.start_seconds;
    }
  }
}

// Each rank computes for a time after every portion of the gradients. An all-reduce that is started
// during the backward pass is in progress during these computations; one that is started afterwards
// is not.
TEST_P(ReducerTest, TimeInCallsExcludesTheComputationBetweenThem) {
  using namespace std::chrono_literals;
  constexpr auto computation = 10ms;
  std::vector<float> gradients(200'000);
  HostReducer reducer(*world, gradients, {.kind = GetParam(), .bucket_bytes = 4 * 50'000});
  double largest_part_in_calls = 0;
  for (int step = 0; step < 6; ++step) {
    world->barrier();
    reducer.begin_step();
    for (const std::size_t filled : {50'000, 100'000, 200'000}) {
      reducer->gradients_ready(filled);
      std::this_thread::sleep_for(computation);
    }
    reducer->finish();
    if (reducer->bucket_times().empty()) return;
    double in_calls = 0, first_start = 1e9, last_end = 0;
    for (const BucketTimes& times : reducer->bucket_times()) {
      EXPECT_GT(times.call_seconds, 0);
      EXPECT_LE(times.call_seconds, times.end_seconds - times.start_seconds);
      in_calls += times.call_seconds;
      first_start = std::min(first_start, times.start_seconds);
      last_end = std::max(last_end, times.end_seconds);
    }
    const double in_progress = last_end - first_start;
    if (GetParam() == ReducerKind::overlap) {
      // Two all-reduces that end before the last computation would end in it.
      EXPECT_LT(in_calls, in_progress - 2 * std::chrono::duration<double>(computation).count());
    }
    largest_part_in_calls = std::max(largest_part_in_calls, in_calls / in_progress);
  }
  // Another process may run between two calls, so one step of several has to show the property.
  if (GetParam() != ReducerKind::overlap) {
    EXPECT_GT(largest_part_in_calls, 0.8);
  }
}

TEST_P(ReducerTest, AllocatesNothingInAStep) {
  std::vector<float> gradients(300'000);
  for (const auto type : {core::DataType::float32, core::DataType::bfloat16}) {
    if (type != core::DataType::float32 && has_own_algorithm(GetParam())) continue;
    HostReducer reducer(*world, gradients,
                        {.kind = GetParam(), .bucket_bytes = 4 * 70'000, .gradient_type = type});
    const long before = test::allocations();
    for (int step = 0; step < 3; ++step) {
      backward(reducer, gradients, world->rank(), step, own);
      reducer->finish();
    }
    EXPECT_EQ(test::allocations() - before, 0);
  }
  EXPECT_GT(test::allocations(), 0) << "allocations are not counted";
}

std::vector<ReducerKind> all_reducers() {
  std::vector<ReducerKind> kinds;
  for (const auto& named : named_values(ReducerKind{})) kinds.push_back(named.value);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReducerTest, testing::ValuesIn(all_reducers()),
                         [](const auto& instance) {
                           std::string name(instance.param.name());
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(GradientReducer, EveryKindAndBucketSizeGivesTheSameBits) {
  const auto world = make_world();
  for (const auto type : {core::DataType::float32, core::DataType::bfloat16}) {
    std::vector<float> reference;
    for (const std::size_t bucket : {4U * 100'000, 4U * 7'001}) {
      for (const auto kind : {ReducerKind::overlap, ReducerKind::allreduce}) {
        std::vector<float> gradients(100'000);
        HostReducer reducer(*world, gradients,
                            {.kind = kind,
                             .bucket_bytes = bucket,
                             .gradient_type = type,
                             .algorithm = AllReduceAlgorithm::direct});
        core::Random random(5, core::RandomStream::test, static_cast<std::uint64_t>(world->rank()));
        reducer.begin_step();
        for (float& value : gradients) value = random.normal();
        reducer->gradients_ready(gradients.size());
        reducer->finish();
        if (reference.empty()) reference = gradients;
        EXPECT_EQ(gradients, reference);
      }
    }
    // The sums must also be the same on every rank: they are compared with those of rank 0.
    std::vector<float> of_root = reference;
    world->broadcast(std::as_writable_bytes(std::span<float>(of_root)));
    EXPECT_EQ(reference, of_root);
  }
}

TEST_P(ReducerTest, CountsTheMessagesOfTheLastStep) {
  std::vector<float> gradients(100'000);  // private memory: all algorithms send messages
  const auto algorithm =
      has_own_algorithm(GetParam()) ? AllReduceAlgorithm::automatic : AllReduceAlgorithm::direct;
  HostReducer reducer(*world, gradients,
                      {.kind = GetParam(), .bucket_bytes = 4 * 7'001, .algorithm = algorithm});
  for (int step = 0; step < 2; ++step) {
    backward(reducer, gradients, world->rank(), step, own);
    reducer->finish();
  }
  const double bytes = 4e5, others = world->size() - 1;
  const Traffic got = reducer->traffic();
  if (GetParam() == ReducerKind::none || others == 0) {
    EXPECT_EQ(got, Traffic{});
  } else if (GetParam() == ReducerKind::gather_scatter) {
    const double own_bytes = world->rank() == 0 ? others * bytes : bytes;
    EXPECT_EQ(got, (Traffic{own_bytes, own_bytes}));
  } else if (GetParam() == ReducerKind::parameter_server) {
    EXPECT_EQ(got, world->rank() == 0 ? (Traffic{0, others * bytes}) : (Traffic{bytes, 0}));
  } else if (find_reducer(GetParam()).bytes_of != nullptr) {
    const auto contributed = reducer->bucket_sizes();
    const std::size_t each =
        std::accumulate(contributed.begin(), contributed.end(), std::size_t{0});
    EXPECT_EQ(got, (Traffic{others * double(each), others * double(each)}));
  } else {  // the chunks of the ranks have lengths that differ slightly
    const double each = 2 * others / (others + 1) * bytes;
    EXPECT_NEAR(got.sent_bytes, each, 0.02 * each);
    EXPECT_NEAR(got.received_bytes, each, 0.02 * each);
  }
}

TEST(GradientReducer, TopKOfAllGradientsIsTheDenseSum) {
  const auto world = make_world();
  core::Random random(6, core::RandomStream::test, static_cast<std::uint64_t>(world->rank()));
  std::vector<float> sparse(10'000);
  for (float& value : sparse) value = random.normal();
  std::vector<float> dense = sparse;
  HostReducer top_k(*world, sparse,
                    {.kind = ReducerKind("top-k"), .bucket_bytes = 4 * 3'000, .density = 1});
  HostReducer gather_scatter(*world, dense, {.kind = ReducerKind::gather_scatter});
  for (HostReducer* reducer : {&top_k, &gather_scatter}) {
    reducer->begin_step();
    (*reducer)->gradients_ready(sparse.size());
    (*reducer)->finish();
  }
  EXPECT_EQ(sparse, dense);
  EXPECT_EQ(std::ranges::count(top_k->state(), 0.0F), std::ssize(top_k->state()));
}

TEST(GradientReducer, TopKSendsTheLargestMagnitudesAndNaN) {
  const auto world = make_world();
  if (world->size() == 1) return;
  std::vector<float> gradients(400, 0.5F);
  HostReducer reducer(*world, gradients, {.kind = ReducerKind("top-k")});
  reducer.begin_step();
  gradients[7] = std::numeric_limits<float>::quiet_NaN();
  gradients[99] = -2.0F;
  gradients[200] = std::numeric_limits<float>::infinity();
  gradients[300] = 3.0F;
  reducer->finish();
  const auto ranks = static_cast<float>(world->size());
  EXPECT_TRUE(std::isnan(gradients[7]));
  EXPECT_EQ(gradients[99], -2 * ranks);
  EXPECT_TRUE(std::isinf(gradients[200]));
  EXPECT_EQ(gradients[300], 3 * ranks);
  EXPECT_EQ(std::ranges::count(gradients, 0.0F), 396);
  EXPECT_EQ(std::ranges::count(reducer->state(), 0.5F), 396);
}

TEST(GradientReducer, RefusesAnotherAlgorithmThanItsOwn) {
  for (const ReducerKind kind : {ReducerKind::gather_scatter, ReducerKind::parameter_server}) {
    EXPECT_EQ(algorithm_of({.kind = kind}), AllReduceAlgorithm::gather_scatter);
    EXPECT_THROW(algorithm_of({.kind = kind, .algorithm = AllReduceAlgorithm::ring}), core::Error);
  }
  EXPECT_EQ(algorithm_of({.algorithm = AllReduceAlgorithm::ring}), AllReduceAlgorithm::ring);
}

TEST(GradientReducer, AutomaticChoiceNeverTimesGatherScatter) {
  const auto world = make_world();
  std::vector<float> gradients(100'000);
  HostReducer reducer(*world, gradients, {.bucket_bytes = 4 * 100'000});
  for (const AlgorithmTime& timed : reducer->choice().timed)
    EXPECT_NE(timed.algorithm, AllReduceAlgorithm::gather_scatter);
  EXPECT_EQ(reducer->choice().timed.empty(), world->size() == 1);
}

TEST(GradientReducer, RefusesWhatItCannotDo) {
  const auto self = make_self_communicator();
  std::vector<float> gradients(10);
  EXPECT_THROW(HostReducer(*self, gradients, {.bucket_bytes = 3}), core::Error);
  EXPECT_THROW(HostReducer(*self, gradients, {.gradient_type = core::DataType::float16}),
               core::Error);
}

}  // namespace
}  // namespace lockstep::comm
