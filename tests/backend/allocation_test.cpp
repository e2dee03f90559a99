// SPDX-License-Identifier: BSD-3-Clause
// Tests that no memory is allocated after the first step. Whenever oneDNN executes a primitive, it
// allocates a few small maps of arguments (version 2.6: about twenty, each below 200 bytes), which
// its callers cannot avoid. Allocations of oneDNN below 1,024 bytes are therefore not counted.

#include <gmock/gmock.h>

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <set>
#include <string>

#include "backend/support.hpp"
#include "count_allocations.hpp"

namespace lockstep::backend::test {
namespace {

using lockstep::test::allocations;

bool is_counted(const void* caller, std::size_t bytes) {
  Dl_info library{};
  return bytes >= 1024 || dladdr(caller, &library) == 0 || library.dli_fname == nullptr ||
         std::strstr(library.dli_fname, "libdnnl") == nullptr;
}

class Allocation
    : public testing::TestWithParam<std::tuple<DeviceKind, core::Precision, int /*threads*/>> {};

TEST_P(Allocation, NoneAfterTheFirstStep) {
  const auto [kind, precision, threads] = GetParam();
  lockstep::test::count_allocations_if(is_counted);
  // Together, these networks contain every operation that computes.
  const std::set<std::string> some{"three_consumers",
                                   "conv_bias_bn_relu_pool",
                                   "block_strided",
                                   "pool3x3",
                                   "relu",
                                   "gn_add_relu",
                                   "dropout_17"};
  for (const Network& network : small_networks()) {
    if (!some.contains(network.name)) continue;
    const Batch images = random_batch(network.graph, 2, 1);
    Replica training(kind, threads, network.graph, {.batch = 2, .precision = precision});
    Replica inference(kind, threads, network.graph,
                      {.batch = 2, .precision = precision, .mode = Mode::inference});
    const auto step = [&] {
      training.step(images);
      inference.upload(images);
      inference.plan->forward();
      return training.plan->result().loss_sum + training.plan->logits()[0] +
             inference.plan->result().loss_sum;
    };
    step();
    const long before = allocations();
    step();
    step();
    EXPECT_EQ(allocations() - before, 0) << network.name;
  }
}

TEST(AllocationCounter, CountsVectors) {
  const long before = allocations();
  const std::vector<float> some(100);
  EXPECT_EQ(allocations() - before, 1) << some.size();
}

using core::Precision;

INSTANTIATE_TEST_SUITE_P(Devices, Allocation,
                         testing::Values(std::tuple{DeviceKind::reference, Precision::fp32, 1},
                                         std::tuple{DeviceKind::cpu, Precision::fp32, 1},
                                         std::tuple{DeviceKind::cpu, Precision::fp32, 2},
                                         std::tuple{DeviceKind::cpu, Precision::bf16, 1}),
                         [](const auto& test) {
                           return fmt::format(
                               "{}_{}_{}_threads", core::name(std::get<0>(test.param)),
                               core::name(std::get<1>(test.param)), std::get<2>(test.param));
                         });

}  // namespace
}  // namespace lockstep::backend::test
