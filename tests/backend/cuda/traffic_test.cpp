// The memory traffic that the implementations of batch norm state for predictions. An identity
// block of a ResNet in maps of one size: batch norm with ReLU moves 2 maps forward and 4 backward,
// batch norm with addition and ReLU 3 and 6, if a single kernel holds the maps on the chip.

#include "backend/cuda/batch_norm/traffic.hpp"

#include <gtest/gtest.h>

#include "planning.hpp"

namespace lockstep::backend::cuda::test {
namespace {

BatchNormSetting inner() {
  BatchNormSetting setting;
  setting.has_relu = true;
  return setting;
}

BatchNormSetting block_end() {
  BatchNormSetting setting = inner();
  setting.has_residual = true;
  setting.output_gradients = 2;
  setting.wants_residual_gradient = true;
  return setting;
}

double moved(const MapTraffic& traffic) { return traffic.read + traffic.written; }

TEST(BatchNormTraffic, ForwardReadsTheInputAgainForTheOutput) {
  for (const PassStructure structure :
       {PassStructure::one_kernel, PassStructure::own_kernels, PassStructure::graphs}) {
    EXPECT_EQ(moved(forward_traffic(inner(), structure)), 2);
    EXPECT_EQ(moved(forward_traffic(block_end(), structure)), 3);
    EXPECT_EQ(forward_traffic(inner(), structure).read_again, 1);
    EXPECT_EQ(forward_traffic(inner(), structure).held, 1);
  }
}

TEST(BatchNormTraffic, ForwardWithGivenSumsReadsOnce) {
  EXPECT_EQ(moved(forward_traffic(inner(), PassStructure::given_sums)), 2);
  EXPECT_EQ(forward_traffic(inner(), PassStructure::given_sums).read_again, 0);
  EXPECT_EQ(moved(forward_traffic(inner(), PassStructure::given_sums_unwritten)), 0);
}

TEST(BatchNormTraffic, BackwardReadsTheOutputOnlyForTheMask) {
  const auto with = backward_traffic(inner(), PassStructure::one_kernel, OutputRead::needed);
  EXPECT_EQ(moved(with), 4);
  EXPECT_EQ(with.read_again, 3);
  EXPECT_EQ(with.held, 2);
  const auto without = backward_traffic(inner(), PassStructure::own_kernels, OutputRead::none);
  EXPECT_EQ(moved(without), 3);
  EXPECT_EQ(without.read_again, 2);
  EXPECT_EQ(without.kernels, 3);
}

TEST(BatchNormTraffic, BackwardOfTheBlockEndStoresTheMaskedGradient) {
  const auto traffic = backward_traffic(block_end(), PassStructure::one_kernel, OutputRead::needed);
  EXPECT_EQ(moved(traffic), 6);
  EXPECT_EQ(traffic.read_again, 2);
  BatchNormSetting images = inner();
  images.wants_input_gradient = false;
  EXPECT_EQ(backward_traffic(images, PassStructure::own_kernels, OutputRead::none).read_again, 0);
}

// cuDNN has no single kernel for batch norm on Turing.
TEST(BatchNormTraffic, IsPartOfTheChoicesOfAPlan) {
  graph::Graph graph("one batch norm");
  auto node = graph.input({3, 8, 8});
  node = graph.convolution("conv", node, 8, {.kernel = 3, .padding = 1});
  const auto norm = graph.batch_norm("bn", node);
  node = graph.relu("relu", norm);
  node = graph.global_average_pool("pool", node);
  node = graph.linear("linear", node, 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  const auto backend = make_backend({.kind = DeviceKind::cuda, .target_gpu = "rtx8000"});
  int found = 0;
  for (const OperationChoice& choice :
       backend->choices(graph, {.batch = 4, .precision = core::Precision::fp16})) {
    EXPECT_EQ(choice.traffic.has_value(), choice.node == norm) << choice.phase;
    if (!choice.traffic) continue;
    EXPECT_EQ(choice.traffic->kernels, 3) << choice.phase;
    ++found;
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace lockstep::backend::cuda::test
