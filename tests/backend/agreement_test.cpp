// Every operation and pattern, forward and backward, on each device against the reference.
//
// Tolerances, relative Euclidean norms per tensor:
//   fp32          sums of at most 5,000 products, errors grow like sqrt(n) 2^-24: 1e-5. Winograd's
//                 transforms triple them at most.
//   bf16          every feature map is rounded once, 2^-9 at most and half of that on average, and
//                 four or five follow one another; a gradient of one or two values may
//                 also cancel: 3e-2.
//   tf32, fp16    both have 10 bits: as bf16 with 2^-11 in the place of 2^-9: 8e-3 and, at kinks,
//                 0.1.
//   bf16, kinks   a value within rounding of a ReLU's kink, or two of a max-pool's window that
//   become
//                 equal, send their whole gradient elsewhere: about 2^-8 of all values, so
//                 sqrt(2^-8) = 6 % of a gradient's norm, more in networks of a few hundred values.

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

struct Device {
  DeviceKind kind;
  Precision precision;
  BatchNormFusion fusion = BatchNormFusion::automatic;

  friend void PrintTo(const Device& device, std::ostream* out) {
    *out << name(device.kind) << ' ' << core::name(device.precision) << " fusion "
         << name(device.fusion);
  }
};

Tolerance tolerance(const Device& device, const Network& network) {
  if (device.precision == Precision::fp32) return {1e-5, 1e-5};
  if (device.precision != Precision::bf16) return {8e-3, network.smooth ? 8e-3 : 0.1};
  return {3e-2, network.smooth ? 3e-2 : 0.2};
}

class Agreement : public testing::TestWithParam<std::tuple<Network, Device>> {};

TEST_P(Agreement, ForwardAndBackwardAreTheReferences) {
  const auto& [network, device] = GetParam();
  REQUIRE_DEVICE(device.kind);
  const Tolerance allowed = tolerance(device, network);
  // Two threads cost a barrier per operation on a busy machine: not at every size.
  for (const auto& [batch, all_threads] : {std::pair{1, std::vector{1}}, {2, {2}}, {5, {1, 2}}}) {
    const Batch images = random_batch(network.graph, batch, 7);
    Replica reference(DeviceKind::reference, 1, network.graph, {.batch = batch});
    reference.step(images);
    for (const int threads : all_threads) {
      SCOPED_TRACE(fmt::format("batch {}, {} threads", batch, threads));
      Replica replica(device.kind, threads, network.graph,
                      {.batch = batch,
                       .precision = device.precision,
                       .batch_norm_fusion = device.fusion,
                       .loss_scale = 1});
      replica.step(images);
      expect_same_forward(network.graph, reference, replica, allowed.scores);
      expect_same_gradients(network.graph, reference, replica, allowed.gradients);
    }
  }
}

TEST_P(Agreement, InferenceOfFullAndPartialBatchesIsTheReferences) {
  const auto& [network, device] = GetParam();
  REQUIRE_DEVICE(device.kind);
  const Batch images = random_batch(network.graph, 5, 8);
  Replica reference(DeviceKind::reference, 1, network.graph, {.batch = 5, .mode = Mode::inference});
  Replica replica(device.kind, 2, network.graph,
                  {.batch = 5, .precision = device.precision, .mode = Mode::inference});
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
  return fmt::format("{}_{}_{}{}{}", network.name, name(device.kind), core::name(device.precision),
                     is_automatic ? "" : "_fusion_", is_automatic ? "" : name(device.fusion));
}

#if defined(LOCKSTEP_TEST_ON_SIMULATED_GPU)  // whose tf32 is float32
constexpr std::array devices{Device{DeviceKind::cuda, Precision::fp32},
                             Device{DeviceKind::cuda, Precision::bf16},
                             Device{DeviceKind::cuda, Precision::fp16}};
constexpr auto type_of_sums = Precision::fp32;
#elif defined(LOCKSTEP_TEST_ON_GPU)
constexpr std::array devices{
    Device{DeviceKind::cuda, Precision::fp32}, Device{DeviceKind::cuda, Precision::tf32},
    Device{DeviceKind::cuda, Precision::bf16}, Device{DeviceKind::cuda, Precision::fp16}};
constexpr auto type_of_sums = Precision::bf16;
#else
constexpr std::array devices{Device{DeviceKind::cpu, Precision::fp32},
                             Device{DeviceKind::cpu, Precision::bf16}};
#endif

INSTANTIATE_TEST_SUITE_P(Devices, Agreement,
                         testing::Combine(testing::ValuesIn(small_networks()),
                                          testing::ValuesIn(devices)),
                         case_name);

#if defined(LOCKSTEP_TEST_ON_SIMULATED_GPU) || defined(LOCKSTEP_TEST_ON_GPU)
std::vector<Network> networks_with_batch_norm() {
  auto networks = small_networks();
  std::erase_if(networks, [](const Network& network) {
    return std::ranges::none_of(network.graph.nodes(), [](const graph::Node& node) {
      return std::holds_alternative<graph::BatchNorm>(node.operation);
    });
  });
  return networks;
}

constexpr std::array fusions{Device{DeviceKind::cuda, type_of_sums, BatchNormFusion::sums},
                             Device{DeviceKind::cuda, Precision::fp16, BatchNormFusion::sums},
                             Device{DeviceKind::cuda, Precision::fp16, BatchNormFusion::prologue}};

INSTANTIATE_TEST_SUITE_P(Fusions, Agreement,
                         testing::Combine(testing::ValuesIn(networks_with_batch_norm()),
                                          testing::ValuesIn(fusions)),
                         case_name);
#endif

}  // namespace
}  // namespace lockstep::backend::test
