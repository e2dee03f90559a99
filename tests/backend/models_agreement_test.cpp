// Whole networks, one training step, on each device against the reference.
//
// Tolerances, relative Euclidean norms per tensor:
//   fp32  scores 1e-4: rounding of 20 to 60 operations, 1e-6 as measured. Gradients 5e-2: 1e-5 as
//         measured with these images, but among a million ReLUs one may stand so near its kink that
//         another order of summation moves it over, and one of the 16,000 signs of a late layer
//         can be 3e-2 of every gradient below it (measured with other images).
//   bf16  a sign that flips at one ReLU (about 2^-8 of all values, see agreement_test.cpp) disturbs
//         every gradient below it, so differences add up to 30 to 50 % of the norm at the first
//         layer. What training needs is direction and length: the cosine at least 0.8, the norms
//         within 20 %. A wrong sign, factor or missing term in any operation breaks one of them.

#include <gmock/gmock.h>

#include <algorithm>
#include <variant>

#include "backend/agreement.hpp"
#include "lockstep/graph/models.hpp"

namespace lockstep::backend::test {
namespace {

struct Model {
  std::string name;
  graph::ModelOptions options;

  friend void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }
};

class ModelAgreement : public testing::TestWithParam<Model> {};

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i) product += double{a[i]} * b[i];
  return product / (norm(a) * norm(b));
}

bool is_convolution_bias(const graph::Graph& graph, const graph::Parameter& parameter) {
  return std::holds_alternative<graph::Convolution>(graph.node(parameter.node).operation) &&
         parameter.shape.size() == 1;
}

#ifdef LOCKSTEP_TEST_ON_GPU
constexpr DeviceKind tested = DeviceKind::cuda;
#else
constexpr DeviceKind tested = DeviceKind::cpu;
#endif

TEST_P(ModelAgreement, OneTrainingStepIsTheReferences) {
  REQUIRE_DEVICE(tested);
  constexpr std::int64_t batch = 2;
  const graph::Graph graph = graph::make_model(GetParam().name, GetParam().options);
  const Batch images = random_batch(graph, batch, 3);
  Replica reference(DeviceKind::reference, 1, graph, {.batch = batch});
  reference.step(images);
  {
    Replica device(tested, 2, graph, {.batch = batch});
    device.step(images);
    expect_same_forward(graph, reference, device, 1e-4);
    expect_same_gradients(graph, reference, device, 5e-2);
  }
  Replica device(tested, 1, graph, {.batch = batch, .precision = core::Precision::bf16});
  device.step(images);
  expect_same_forward(graph, reference, device, 0.1);
  for (const graph::Parameter& parameter : graph.parameters()) {
    if (is_convolution_bias(graph, parameter)) continue;  // 0 before a batch norm
    const auto want = reference.gradients().subspan(parameter.offset, parameter.elements);
    const auto got = device.gradients().subspan(parameter.offset, parameter.elements);
    EXPECT_GE(cosine(got, want), 0.8) << parameter.name;
    EXPECT_NEAR(norm(got) / norm(want), 1, 0.2) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ModelAgreement,
    testing::Values(Model{"resnet18-cifar", {}}, Model{"vgg11", {.label_smoothing = 0.1f}},
                    Model{"resnet18-imagenet", {.classes = 7, .image = {3, 64, 64}}}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace lockstep::backend::test
