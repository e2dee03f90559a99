// SPDX-License-Identifier: BSD-3-Clause
// Tests the selection and the parallel compilation of engines with offline planning, without a GPU.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/dnn/engine_choice.hpp"
#include "planning.hpp"

namespace lockstep::backend::cuda::test {
namespace {

using core::Precision;

/// `--engines quick` must support every convolution, because nothing else computes one.
TEST(EngineRules, QuickSelectionFindsPrecompiledEngines) {
  struct Device {
    const char* name;
    std::vector<Precision> precisions;
  };
  // Other processes can run this test at the same time, with another cuDNN.
  const auto file = std::filesystem::path(testing::TempDir()) /
                    ("lockstep-quick-engines-" + std::to_string(::getpid()) + ".jsonl");
  std::size_t chosen = 0;
  for (const auto& [name, precisions] : std::vector<Device>{
           {"h200", {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}},
           {"a100", {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}},
           {"rtx8000", {Precision::fp32, Precision::fp16}}}) {
    const Target target = described(name);
    DnnPlanner planner(target, {.selection = EngineSelection::quick}, EngineCache(),
                       EngineLog(file));
    for (const Precision precision : precisions) {
      for (const auto& shape : resnet18_convolutions(precision)) {
        convolution_forward(planner, shape, precision);
        convolution_forward(planner, shape, precision, BiasVector::added);
        convolution_backward_weights(planner, shape, precision);
        if (shape.in_channels >= 64) convolution_backward_data(planner, shape, precision);
      }
    }
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      const bool is_built = line.find("\"build_seconds\":null") == std::string::npos;
      if (is_built) {
        EXPECT_NE(line.find("\"kind\":\"precompiled\""), std::string::npos) << line;
      }
      chosen += line.find("\"chosen\":true") != std::string::npos ? 1u : 0u;
    }
  }
  EXPECT_EQ(chosen, 10u * 43u);
  std::filesystem::remove(file);
}

/// Several threads build engines of batch norms at the same time, each with its own graphs.
TEST(Engines, AreBuiltByParallelThreads) {
  const Target target = described("h200");
  const auto make = [](const Target& of) {
    auto graph = std::make_unique<OperationGraph>(of, core::DataType::bfloat16);
    const Extents map{32, 64, 8, 8}, vector{1, 64, 1, 1};
    const auto bf16 = core::DataType::bfloat16, fp32 = core::DataType::float32;
    const auto norm = graph->batch_norm(
        graph->input(1, map, bf16), graph->input(2, vector, fp32), graph->input(3, vector, fp32),
        graph->input(4, vector, fp32), graph->input(5, vector, fp32), epsilon, momentum);
    graph->output(norm.mean, 6, fp32);
    graph->output(norm.inverse_deviation, 7, fp32);
    graph->output(norm.running_mean, 8, fp32);
    graph->output(norm.running_variance, 9, fp32);
    graph->output(norm.y, 10, bf16);
    return graph;
  };
  const auto graph = make(target);
  ASSERT_EQ(graph->seal(), std::nullopt);
  ASSERT_EQ(graph->find_engines(Heuristics::best_first), std::nullopt);
  std::set<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(graph->engines(), 4); ++i) {
    EXPECT_TRUE(graph->facts(i).runtime_compiled);
    names.insert(graph->facts(i).name);
  }
  ASSERT_GE(names.size(), 2u);
  const BuildRequest request{
      .make = make,
      .wants = [names](const EngineFacts& engine) { return names.contains(engine.name); },
      .workspace_limit = EngineRules{}.workspace_limit,
      .expected_engines = names.size()};
  EnginePool pool(target, 2, nullptr);
  for (const BuiltGraph& result : pool.build({request, request}, {})) {
    EXPECT_EQ(result.engines.size(), names.size());
    for (const BuiltEngine& built : result.engines) {
      EXPECT_TRUE(built.was_started);
      EXPECT_EQ(built.refusal, "");
      EXPECT_NE(graph->restored(built.bytes, built.name), nullptr) << built.name;
    }
  }
}

}  // namespace
}  // namespace lockstep::backend::cuda::test
