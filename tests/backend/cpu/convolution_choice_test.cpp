// SPDX-License-Identifier: BSD-3-Clause
// The automatic choice of convolution algorithms and layouts, with planted times instead of
// measured ones, so that the expected choice is known on every processor. The kernels of AMX are
// emulated.

#include "backend/cpu/convolution/convolution_choice.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "backend/cpu/backend.hpp"
#include "backend/cpu/cells/kernels.hpp"
#include "backend/cpu/plan.hpp"
#include "lockstep/graph/operations/convolution.hpp"
#include "lockstep/graph/operations/softmax_cross_entropy.hpp"

namespace lockstep::backend::cpu {
namespace {

using enum ConvolutionAlgorithm;
using core::DataType;
using core::Precision;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

/// Seconds per image of each algorithm, for every direction of every convolution.
using Times = std::map<ConvolutionAlgorithm, double>;

/// Returns a chooser for a processor with AMX on which the algorithms take these times, multiplied
/// by `float32_factor` for maps in float32, and by `blocked_factor` for sources in blocks of
/// images.
ConvolutionChooser make_chooser(const Times& times, double blocked_factor) {
  return ConvolutionChooser(ChoiceRule::fastest, {cells::make_emulated_kernels(), nullptr},
                            [=](ConvolutionAlgorithm algorithm, const ConvolutionProblem& problem,
                                ConvolutionDirection&) {
                              const FeatureMap& source = problem.source;
                              return times.at(algorithm) * static_cast<double>(source.images) *
                                     (source.images_per_block() > 1 ? blocked_factor : 1);
                            });
}

/// Two convolutions of 32 channels on maps of `size` x `size` pixels: the first reads the images,
/// F(4x4, 3x3) supports the second.
graph::Graph network(std::int64_t size) {
  graph::Graph graph("network");
  constexpr graph::Convolution same{.kernel = 3, .stride = 1, .padding = 1};
  auto x = graph.convolution("first", graph.input({3, size, size}), 32, same);
  x = graph.convolution("second", x, 32, same);
  x = graph.linear("linear", graph.global_average_pool("pool", x), 10);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

struct Choice {
  MapLayout layout;
  std::set<std::string> of_second;  ///< the implementations of the second convolution
};

Choice choose(const Times& times, std::int64_t batch, double blocked_factor = 1) {
  ConvolutionChooser chooser = make_chooser(times, blocked_factor);
  const graph::Graph graph = network(8);
  CpuOperations operations(graph, {.batch = batch, .precision = Precision::bf16}, 1, chooser);
  Choice choice{operations.feature_map({32, 8, 8}).layout, {}};
  for (const OperationChoice& made : Blueprint(operations).choices())
    if (graph.node(made.node).name == "second") choice.of_second.insert(made.implementation);
  return choice;
}

/// Numbers of images that fill no block of 32, one, and several.
class ConvolutionChoice : public testing::TestWithParam<std::int64_t> {};

TEST_P(ConvolutionChoice, UsesNoCellsIfFloat32WinogradIsFaster) {
  const auto choice = choose(
      {{amx, 3}, {winograd_int16, 3}, {winograd_bf16, 3}, {winograd, 1}, {direct, 2}}, GetParam());
  EXPECT_NE(choice.layout, MapLayout::blocked32x32);
  EXPECT_THAT(choice.of_second, Each(HasSubstr("winograd 4x4")));
}

TEST_P(ConvolutionChoice, UsesNoCellsIfDirectKernelsOfTheLibraryAreFaster) {
  const auto choice = choose(
      {{amx, 3}, {winograd_int16, 4}, {winograd_bf16, 4}, {winograd, 2}, {direct, 1}}, GetParam());
  EXPECT_NE(choice.layout, MapLayout::blocked32x32);
  EXPECT_THAT(
      choice.of_second,
      Each(Not(testing::AnyOf(HasSubstr("winograd"), HasSubstr("amx "), HasSubstr("maps")))));
}

TEST_P(ConvolutionChoice, UsesCellsIfTheyAreFaster) {
  const auto choice = choose(
      {{amx, 1}, {winograd_int16, 2}, {winograd_bf16, 2}, {winograd, 3}, {direct, 4}}, GetParam());
  EXPECT_EQ(choice.layout, MapLayout::blocked32x32);
  EXPECT_THAT(choice.of_second, Each(Not(HasSubstr("winograd"))));
}

/// In cells the first convolution, with two directions, is slower by 2 s per image, and the second,
/// with three directions, faster by 3 s.
TEST_P(ConvolutionChoice, ComparesTheSumsOfAllConvolutions) {
  for (const auto& [fastest, name] : {std::pair{winograd_int16, "winograd 4x4 int16"},
                                      std::pair{winograd_bf16, "winograd 2x2"}}) {
    Times times{{amx, 4}, {winograd_int16, 4}, {winograd_bf16, 4}, {winograd, 3}, {direct, 3}};
    times[fastest] = 3;
    const auto choice = choose(times, GetParam(), 2.0 / 3);
    EXPECT_EQ(choice.layout, MapLayout::blocked32x32);
    EXPECT_THAT(choice.of_second, Each(HasSubstr(name)));
    EXPECT_NE(choose(times, GetParam(), 0.9).layout, MapLayout::blocked32x32);
  }
}

/// In this layout, oneDNN's kernels for AVX2 do not support the gradient of the weights on maps of
/// 2x2 pixels. CTest also runs the test with ONEDNN_MAX_CPU_ISA=AVX2.
TEST(ConvolutionChoiceOnSmallMaps, TimesNoReferenceKernelBesideOtherKernels) {
  const graph::Graph graph = network(2);
  std::set<std::string> timed;
  ConvolutionChooser chooser(ChoiceRule::fastest, {},
                             [&](ConvolutionAlgorithm algorithm, const ConvolutionProblem& problem,
                                 ConvolutionDirection& direction) {
                               if (problem.sizes.in_channels == 32)
                                 timed.insert(direction.implementation());
                               return algorithm == direct ? 2.0 : 1.0;
                             });
  CpuOperations operations(graph, {.batch = 8}, 1, chooser);
  EXPECT_FALSE(Blueprint(operations).choices().empty());
  EXPECT_THAT(timed, testing::Contains(HasSubstr("winograd")));
  EXPECT_THAT(timed, Each(Not(HasSubstr("ref"))));
}

INSTANTIATE_TEST_SUITE_P(Images, ConvolutionChoice, testing::Values(5, 32, 100));

}  // namespace
}  // namespace lockstep::backend::cpu
