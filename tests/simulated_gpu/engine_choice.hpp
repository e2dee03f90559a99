// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the tests of the selection of cuDNN engines share.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/dnn/convolution_graphs.hpp"
#include "backend/cuda/dnn/dnn_graph.hpp"
#include "simulated_gpu/engines.hpp"
#include "simulated_gpu/runtime.hpp"
#include "temporary_directory.hpp"

namespace lockstep::backend::cuda {

inline constexpr double slow = 2e-3, fast = 0;  // seconds of an execution

inline std::vector<std::string> names_of(const std::vector<simulated_gpu::Engine>& engines) {
  std::vector<std::string> names;
  for (const simulated_gpu::Engine& engine : engines) names.push_back(engine.name);
  return names;
}

inline std::string name_of(const std::shared_ptr<const DnnGraph>& graph) {
  return simulated_gpu::engine_name(graph->engine());
}

/// Returns `count` engines with an index in their name, of which only the last is fast.
inline std::vector<simulated_gpu::Engine> last_is_fastest(std::size_t count,
                                                          const simulated_gpu::Engine& pattern) {
  std::vector<simulated_gpu::Engine> engines;
  for (std::size_t i = 0; i < count; ++i) {
    simulated_gpu::Engine engine = pattern;
    engine.name += std::to_string(i);
    engine.run_seconds = i + 1 < count ? slow : fast;
    engines.push_back(engine);
  }
  return engines;
}

class EngineChoiceTest : public testing::Test {
 protected:
  void TearDown() override {
    simulated_gpu::set_engines({});
    simulated_gpu::set_free_memory(std::size_t{1} << 33);
  }

  std::shared_ptr<const DnnGraph> choose(const std::vector<simulated_gpu::Engine>& engines,
                                         EngineRules rules = {}) {
    simulated_gpu::set_engines(engines);
    return choose_again(rules);
  }
  std::shared_ptr<const DnnGraph> choose_again(EngineRules rules) {
    DnnPlanner planner(target_, rules, EngineCache(cache_file_), EngineLog(folder_ / "log"));
    return convolution_forward(planner, {2, 1, 1, 1, 1, 1, 1, 0}, precision_);
  }

  /// Returns the lines of the engine log that contain `part`.
  std::vector<std::string> log_lines(const std::string& part = "") const {
    std::ifstream stream(folder_ / "log");
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);)
      if (line.find(part) != std::string::npos) lines.push_back(line);
    return lines;
  }

  const Target target_ = Target::device(0);
  const TemporaryDirectory directory_;
  const std::filesystem::path folder_ = directory_.path();
  std::filesystem::path cache_file_;  // empty: in memory
  core::Precision precision_ = core::Precision::bf16;
};

}  // namespace lockstep::backend::cuda
