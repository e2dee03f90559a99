// SPDX-License-Identifier: BSD-3-Clause
// Compares every operation and pattern, forward and backward, on each device with the reference.
//
// Tolerances, as relative Euclidean norms per tensor:
//   - fp32: 1e-5. Sums have at most 5,000 products, and their errors grow like sqrt(n) 2^-24. The
//     Winograd transforms at most triple them.
//   - bf16: 3e-2. Each feature map is rounded once, with a relative error of at most 2^-8 per value
//     and less than half of that in the norm. Four or five maps follow one another, and a gradient
//     of one or two values may also suffer from cancellation.
//   - bf16, gradients of networks with kinks: 0.2. If rounding moves a value across the kink of a
//     ReLU, or makes two values in the window of a max-pool equal, their whole gradient goes to
//     another element. This affects about 2^-8 of all values, thus sqrt(2^-8) = 6 % of the norm of
//     a gradient, and more in networks with a few hundred values.
//   - tf32, fp16: 8e-3, and 0.1 for gradients of networks with kinks. Both have 10 explicit bits of
//     mantissa, so the rounding errors are at most 2^-11 instead of 2^-8.

#include "backend/agreement.hpp"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>
#include <vector>

namespace lockstep::backend::test {
namespace {

using core::Precision;

struct ComparedDevice {
  DeviceKind kind;
  Precision precision;
  BatchNormFusion fusion = BatchNormFusion::automatic;

  friend void PrintTo(const ComparedDevice& device, std::ostream* out) {
    *out << core::name(device.kind) << ' ' << core::name(device.precision) << " fusion "
         << core::name(device.fusion);
  }
};

Tolerance tolerance(const ComparedDevice& device, const Network& network) {
  if (device.precision == Precision::fp32) return {1e-5, 1e-5};
  if (device.precision != Precision::bf16) return {8e-3, network.smooth ? 8e-3 : 0.1};
  return {3e-2, network.smooth ? 3e-2 : 0.2};
}

/// Returns the batch sizes, each with the numbers of threads. With several threads each operation
/// needs a barrier, which is slow on a busy machine. Therefore only the largest batch is also
/// tested with one thread. One batch has fewer images than threads.
std::vector<std::pair<std::int64_t, std::vector<int>>> batches() {
  if (const std::int64_t only = test_settings().batch; only > 0) return {{only, {1}}};
  return {{1, {2}}, {2, {3}}, {5, {1, 2}}};
}

class Agreement : public testing::TestWithParam<std::tuple<Network, ComparedDevice>> {};

TEST_P(Agreement, ForwardAndBackwardEqualTheReference) {
  const auto& [network, device] = GetParam();
  test_settings();  // throws if a value is invalid, also without a GPU
  REQUIRE_DEVICE(device.kind);
  if (const std::string reason = why_unsupported(device.kind, network.graph); !reason.empty())
    GTEST_SKIP() << reason;
  const Tolerance allowed = tolerance(device, network);
  for (const auto& [batch, all_threads] : batches()) {
    const Batch images = random_batch(network.graph, batch, 7);
    Replica reference(DeviceKind::reference, 1, network.graph,
                      {.batch = batch, .normalisation = cifar10_normalisation});
    reference.step(images);
    for (const int threads : all_threads) {
      SCOPED_TRACE(fmt::format("batch {}, {} threads", batch, threads));
      Replica replica(device.kind, threads, network.graph,
                      {.batch = batch,
                       .precision = device.precision,
                       .batch_norm_fusion = device.fusion,
                       .normalisation = cifar10_normalisation,
                       .loss_scale = 1});
      replica.step(images);
      expect_same_forward(network.graph, reference, replica, allowed.scores);
      expect_same_gradients(network.graph, reference, replica, allowed.gradients);
    }
  }
}

TEST_P(Agreement, InferenceOfFullAndPartialBatchesEqualsTheReference) {
  const auto& [network, device] = GetParam();
  test_settings();  // throws if a value is invalid, also without a GPU
  REQUIRE_DEVICE(device.kind);
  if (const std::string reason = why_unsupported(device.kind, network.graph); !reason.empty())
    GTEST_SKIP() << reason;
  const Batch images = random_batch(network.graph, 5, 8);
  Replica reference(DeviceKind::reference, 1, network.graph,
                    {.batch = 5, .mode = Mode::inference, .normalisation = cifar10_normalisation});
  Replica replica(device.kind, 2, network.graph,
                  {.batch = 5,
                   .precision = device.precision,
                   .mode = Mode::inference,
                   .normalisation = cifar10_normalisation});
  for (const std::int64_t count : {5, 2, 1, 5}) {
    SCOPED_TRACE(fmt::format("{} of 5 images", count));
    const Batch some = part(network.graph, images, 5 - count, count);
    for (Replica* one : {&reference, &replica}) {
      one->upload(some);
      one->plan->forward();
    }
    expect_same_forward(network.graph, reference, replica, tolerance(device, network).scores);
  }
}

std::string case_name(const testing::TestParamInfo<Agreement::ParamType>& test) {
  const auto& [network, device] = test.param;
  const bool is_automatic = device.fusion == BatchNormFusion::automatic;
  return fmt::format("{}_{}_{}{}{}", network.name, core::name(device.kind),
                     core::name(device.precision), is_automatic ? "" : "_fusion_",
                     is_automatic ? "" : core::name(device.fusion));
}

#if defined(LOCKSTEP_TEST_ON_SIMULATED_GPU)  // no tf32: the simulated GPU does not round to it
constexpr std::array compared_devices{ComparedDevice{DeviceKind::cuda, Precision::fp32},
                                      ComparedDevice{DeviceKind::cuda, Precision::bf16},
                                      ComparedDevice{DeviceKind::cuda, Precision::fp16}};
constexpr auto type_of_sums = Precision::fp32;
#elif defined(LOCKSTEP_TEST_ON_GPU)
constexpr std::array compared_devices{ComparedDevice{DeviceKind::cuda, Precision::fp32},
                                      ComparedDevice{DeviceKind::cuda, Precision::tf32},
                                      ComparedDevice{DeviceKind::cuda, Precision::bf16},
                                      ComparedDevice{DeviceKind::cuda, Precision::fp16}};
constexpr auto type_of_sums = Precision::bf16;
#else
constexpr std::array compared_devices{ComparedDevice{DeviceKind::cpu, Precision::fp32},
                                      ComparedDevice{DeviceKind::cpu, Precision::bf16}};
#endif

INSTANTIATE_TEST_SUITE_P(Devices, Agreement,
                         testing::Combine(testing::ValuesIn(small_networks()),
                                          testing::ValuesIn(compared_devices)),
                         case_name);

#if defined(LOCKSTEP_TEST_ON_SIMULATED_GPU) || defined(LOCKSTEP_TEST_ON_GPU)
std::vector<Network> networks_with_batch_norm() {
  auto networks = small_networks();
  std::erase_if(networks, [](const Network& network) {
    return std::ranges::none_of(network.graph.nodes(), [](const graph::Node& node) {
      return node.operation.is<graph::BatchNorm>();
    });
  });
  return networks;
}

constexpr std::array fusions{
    ComparedDevice{DeviceKind::cuda, type_of_sums, BatchNormFusion::sums},
    ComparedDevice{DeviceKind::cuda, Precision::fp16, BatchNormFusion::sums}};

INSTANTIATE_TEST_SUITE_P(Fusions, Agreement,
                         testing::Combine(testing::ValuesIn(networks_with_batch_norm()),
                                          testing::ValuesIn(fusions)),
                         case_name);
#endif

}  // namespace
}  // namespace lockstep::backend::test
