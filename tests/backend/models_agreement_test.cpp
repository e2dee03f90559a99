// SPDX-License-Identifier: BSD-3-Clause
// Compares one training step of complete networks on a device with the reference.
//
// Tolerances, as relative Euclidean norms per tensor:
//   - fp32, logits: 1e-4. They are rounded in 20 to 60 operations; measured: 1e-6.
//   - fp32, gradients: 5e-2. Measured with these images: 1e-5. But one of a million ReLU inputs may
//     be so close to zero that another order of summation changes its sign, and the change of one
//     of the 16,000 signs in a late layer can change all gradients of the preceding layers by 3e-2
//     (measured with other images).
//   - bf16, logits: 0.1.
//   - bf16, gradients: cosine at least 0.8, norms within 20 %. Rounding changes the sign of the
//     input of a ReLU for about 2^-8 of all values (see agreement_test.cpp), and each change
//     affects all gradients of the preceding layers, so the differences add up to 30 to 50 % of the
//     norm in the first layer. Training needs the right direction and length of the gradients,
//     which the cosine and the norms test: a wrong sign, a wrong factor or a missing term in any
//     operation violates one of these limits.

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
  return graph.node(parameter.node).operation.is<graph::Convolution>() &&
         parameter.shape.size() == 1;
}

#ifdef LOCKSTEP_TEST_ON_GPU
constexpr DeviceKind tested = DeviceKind::cuda;
#else
constexpr DeviceKind tested = DeviceKind::cpu;
#endif

TEST_P(ModelAgreement, OneTrainingStepEqualsTheReference) {
  REQUIRE_DEVICE(tested);
  constexpr std::int64_t batch = 2;
  const graph::Graph graph = graph::make_model(GetParam().name, GetParam().options);
  const Batch images = random_batch(graph, batch, 3);
  Replica reference(DeviceKind::reference, 1, graph,
                    {.batch = batch, .normalisation = cifar10_normalisation});
  reference.step(images);
  {
    Replica device(tested, 2, graph, {.batch = batch, .normalisation = cifar10_normalisation});
    device.step(images);
    expect_same_forward(graph, reference, device, 1e-4);
    expect_same_gradients(graph, reference, device, 5e-2);
  }
  Replica device(
      tested, 1, graph,
      {.batch = batch, .precision = core::Precision::bf16, .normalisation = cifar10_normalisation});
  device.step(images);
  expect_same_forward(graph, reference, device, 0.1);
  for (const graph::Parameter& parameter : graph.parameters()) {
    if (is_convolution_bias(graph, parameter)) continue;  // its gradient is 0 before a batch norm
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
