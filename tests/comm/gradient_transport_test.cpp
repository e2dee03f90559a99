// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/comm/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "gpu_checks.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

using core::DataType;
using testing::HasSubstr;

/// Returns the error that `work` throws. Fails the test if it is not an `AgreedError`, which all
/// ranks throw and only one of them prints.
template <class Work>
core::Error refusal(Work work) {
  try {
    work();
  } catch (const AgreedError& error) {
    return error;
  } catch (const core::Error& error) {
    ADD_FAILURE() << "every rank would print: " << error.what();
    return error;
  }
  return {core::ExitStatus::done, "was not refused"};
}

class TransportTest : public testing::Test {
 protected:
  core::GradientArray array(const core::Buffer& buffer, DataType type = DataType::float32) const {
    return {buffer.data(), buffer.bytes() / core::size_of(type), type};
  }

  std::unique_ptr<Communicator> world = make_world();
  core::HostTimeline timeline;
  const core::DeviceQueue host;
};

TEST_F(TransportTest, SumsGradientsOfTheHost) {
  for (const auto kind : {TransportKind::automatic, TransportKind::mpi}) {
    const auto transport = make_gradient_transport(*world, host, {.kind = kind});
    EXPECT_EQ(transport->library_version(), world->library_version());
    const core::Buffer buffer = transport->allocate(1000 * sizeof(float));
    const auto values = buffer.as<float>();
    const auto reducer =
        transport->make_reducer(array(buffer), {.bucket_bytes = 4 * 300}, timeline);
    EXPECT_TRUE(reducer->is_recordable());
    EXPECT_NO_THROW(reducer->throw_if_failed());
    for (int step = 0; step < 2; ++step) {
      reducer->begin_step();
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i + static_cast<std::size_t>(world->rank() + step));
      reducer->gradients_ready(values.size());
      for (std::size_t done = 0; done < values.size();) {
        const std::size_t more = reducer->wait_beyond(done);
        ASSERT_GT(more, done);
        done = more;
      }
      const int ranks = world->size();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto expected = static_cast<float>(static_cast<int>(i) * ranks + step * ranks +
                                                 ranks * (ranks - 1) / 2);
        ASSERT_EQ(values[i], expected);
      }
    }
  }
}

TEST_F(TransportTest, SumsStatisticsOfTheHost) {
  const auto transport = make_gradient_transport(*world, host, {});
  std::array<float, 2> values = {1, static_cast<float>(world->rank())};
  core::StatisticsAllReduce& sum = transport->statistics_all_reduce();
  EXPECT_EQ(sum.replicas(), world->size());
  sum.sum(values);
  EXPECT_EQ(values[0], static_cast<float>(world->size()));
  EXPECT_EQ(values[1], static_cast<float>(world->size() * (world->size() - 1) / 2));
}

TEST_F(TransportTest, HostGradientsAreFloat32) {
  const auto transport = make_gradient_transport(*world, host, {});
  const core::Buffer buffer = transport->allocate(400);
  for (const auto type : {DataType::bfloat16, DataType::float16}) {
    const auto error = refusal([&] { transport->make_reducer(array(buffer, type), {}, timeline); });
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    EXPECT_THAT(error.what(), HasSubstr(std::string("not ") + std::string(core::name(type))));
  }
  // The communication data type may be narrower than float32: the reducer converts.
  EXPECT_NO_THROW(
      transport->make_reducer(array(buffer), {.gradient_type = DataType::bfloat16}, timeline));
}

TEST_F(TransportTest, TransportMustFitTheDevice) {
  for (const auto kind : {TransportKind::nccl, TransportKind::staged}) {
    const auto error = refusal([&] { make_gradient_transport(*world, host, {.kind = kind}); });
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    EXPECT_THAT(error.what(), HasSubstr("transport " + std::string(core::name(kind)) +
                                        " carries the gradients of GPUs"));
  }
  const core::DeviceQueue gpu{.device = 0};
  const auto error =
      refusal([&] { make_gradient_transport(*world, gpu, {.kind = TransportKind::mpi}); });
  EXPECT_EQ(error.status(), core::ExitStatus::usage);
  EXPECT_THAT(error.what(), HasSubstr("computes on GPUs; use nccl"));
}

TEST_F(TransportTest, DeviceGradientsAreCommunicatedInTheirDataType) {
  const core::GradientArray gradients{.elements = 1000, .type = DataType::bfloat16};
  EXPECT_NO_THROW(check_device_type(gradients, {.gradient_type = DataType::bfloat16}));
  expect_error(core::ExitStatus::usage, {"they are bf16 and cannot be communicated as fp32"},
               [&] { check_device_type(gradients, {}); });
}

TEST_F(TransportTest, GradientsAreDividedOnlyIfTheyAreCommunicated) {
  const ReducerOptions options{.bucket_bytes = 4 * 300};
  EXPECT_EQ(partition_gradients(1000, 1, options).count(), 0U);
  EXPECT_EQ(partition_gradients(1000, 2, options).count(), 4U);
  EXPECT_EQ(
      partition_gradients(1000, 2, {.kind = ReducerKind::none, .bucket_bytes = 4 * 300}).count(),
      0U);
  EXPECT_THROW(partition_gradients(1000, 1, {.bucket_bytes = 3}), core::Error);
}

TEST_F(TransportTest, TooSmallBucketsAreOneErrorOfAllRanks) {
  const auto transport = make_gradient_transport(*world, host, {});
  const core::Buffer buffer = transport->allocate(400);
  const auto error =
      refusal([&] { transport->make_reducer(array(buffer), {.bucket_bytes = 3}, timeline); });
  EXPECT_EQ(error.status(), core::ExitStatus::usage);
}

TEST(GpuSharing, SharersAreOfOneHost) {
  const std::vector<GpuPlace> places = {{0, "1"}, {0, "2"}, {1, "1"}, {1, "2"}};
  EXPECT_EQ(first_sharers(places), std::nullopt);
  EXPECT_EQ(first_sharers(std::vector<GpuPlace>{{0, "1"}, {1, "1"}, {1, "1"}}), std::pair(1, 2));
  EXPECT_EQ(first_sharers({}), std::nullopt);
}

TEST_F(TransportTest, SharedGpusAreRefusedUnlessAllowed) {
  const std::string place = "0000:1B:00.0";
  if (world->size() == 1) {
    EXPECT_FALSE(find_shared_gpus(*world, place, false));
    return;
  }
  EXPECT_TRUE(find_shared_gpus(*world, place, true));
  const auto error = refusal([&] { find_shared_gpus(*world, place, false); });
  EXPECT_EQ(error.status(), core::ExitStatus::usage);
  EXPECT_THAT(error.what(), HasSubstr("ranks 0 and 1 on " + core::host_name() +
                                      " use the same GPU (0000:1B:00.0)"));
  const std::string own = std::to_string(world->rank());
  EXPECT_FALSE(find_shared_gpus(*world, own, false));
}

TEST_F(TransportTest, FirstFailingRankReports) {
  EXPECT_NO_THROW(together(*world, [] {}));
  const auto error = refusal([&] {
    together(*world, [&] {
      if (world->rank() == world->size() - 1)
        core::fail(core::ExitStatus::out_of_memory, "no memory on " + describe_rank(*world));
    });
  });
  EXPECT_EQ(error.status(), core::ExitStatus::out_of_memory);
  EXPECT_THAT(error.what(), testing::StartsWith("no memory on rank " +
                                                std::to_string(world->size() - 1) + " of "));
}

}  // namespace
}  // namespace lockstep::comm
