// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Helper functions for the tests of offline planning (planning without a GPU).

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/device/device.hpp"
#include "backend/cuda/dnn/convolution_graphs.hpp"
#include "backend/cuda/dnn/dnn_graph.hpp"
#include "backend/cuda/dnn/engine_cache.hpp"
#include "backend/cuda/state.hpp"

namespace lockstep::backend::cuda::test {

inline constexpr std::int64_t images = 512;
inline constexpr float epsilon = 1e-5f;
inline constexpr float momentum = 0.1f;

/// Returns the target for offline planning with the device description `name`.
inline Target described(std::string_view name) {
  EXPECT_TRUE(open_planning_driver());
  return Target::description(name);
}

inline DnnPlanner planner_for(const Target& target, EngineRules rules = {}) {
  return {target, rules, EngineCache()};
}

/// Returns the shapes of the convolutions of ResNet-18 for CIFAR, each shape once; the stem is
/// first.
inline std::vector<ConvolutionShape> resnet18_convolutions(core::Precision precision) {
  std::vector<ConvolutionShape> shapes{
      {images, padded_image_channels(3, activation_type(precision)), 32, 32, 64, 3, 1, 1},
      {images, 64, 32, 32, 64, 3, 1, 1}};
  std::int64_t channels = 64, height = 32;
  for (int layer = 2; layer <= 4; ++layer) {
    shapes.push_back({images, channels, height, height, 2 * channels, 3, 2, 1});
    shapes.push_back({images, channels, height, height, 2 * channels, 1, 2, 0});
    channels *= 2;
    height /= 2;
    shapes.push_back({images, channels, height, height, channels, 3, 1, 1});
  }
  return shapes;
}

inline void print_table(const DnnPlanner& planner) {
  for (const auto& [key, planned] : planner.planned()) {
    if (planned.graph == nullptr)
      std::printf("%-24s %-78s refused: %s\n", planner.target().info().name.c_str(), key.c_str(),
                  planned.refusal.c_str());
    else
      std::printf("%-24s %-78s %-52s %zu\n", planner.target().info().name.c_str(), key.c_str(),
                  planned.graph->engine().c_str(), planned.graph->workspace_bytes());
  }
}

struct Case {
  const char* device;
  core::Precision precision;
};

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.device) + "_" + std::string(core::name(info.param.precision));
}

}  // namespace lockstep::backend::cuda::test
