// SPDX-License-Identifier: BSD-3-Clause
// Tests how engines of whole networks are built together, the total time limit, and the cache of
// plans, with scripted engines of a simulated GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/dnn/batch_norm_graphs.hpp"
#include "backend/support.hpp"
#include "lockstep/core/progress.hpp"
#include "simulated_gpu/engine_choice.hpp"

namespace lockstep::backend::cuda {
namespace {

using core::Precision;
using simulated_gpu::Engine;
using simulated_gpu::engine_calls;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr BatchNormShape norm_shape{2, 3, 2, 2};

class EnginePoolTest : public EngineChoiceTest {
 protected:
  std::unique_ptr<Backend> make(DeviceOptions options = {}) const {
    options.kind = DeviceKind::cuda;
    options.cache_directory = folder_ / "cache";
    options.engine_log = folder_ / "log";
    return make_backend(options);
  }

  /// Returns the number of engines that are built for a plan of the network.
  std::size_t builds(const DeviceOptions& options = {},
                     BatchNormFusion fusion = BatchNormFusion::automatic,
                     Precision precision = Precision::bf16) const {
    simulated_gpu::set_engines(engines_);
    const auto backend = make(options);
    ModelState state = backend->make_state(graph_);
    backend->compile(graph_, state,
                     {.batch = 2, .precision = precision, .batch_norm_fusion = fusion});
    return engine_calls().built.size();
  }

  static graph::Graph block() {
    const auto networks = test::small_networks();
    return std::ranges::find(networks, "block_strided", &test::Network::name)->graph;
  }

  graph::Graph graph_ = block();
  std::vector<Engine> engines_{{.name = "a", .is_runtime_compiled = true},
                               {.name = "b", .is_runtime_compiled = true}};
};

TEST_F(EnginePoolTest, AllEnginesOfAPlanAreBuiltBeforeTheFirstRuns) {
  for (const BatchNormFusion fusion : {BatchNormFusion::automatic, BatchNormFusion::none}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      SCOPED_TRACE(core::name(precision));
      std::filesystem::remove_all(folder_ / "cache");
      const std::size_t built = builds({.build_threads = 4}, fusion, precision);
      EXPECT_GT(built, 2u * 10u);
      EXPECT_EQ(engine_calls().built_before_first_run, built);
      EXPECT_THAT(log_lines("runtime_compiled\",\"build_seconds\":null"), IsEmpty());
    }
  }
}

TEST_F(EnginePoolTest, EachThreadCreatesOneHandleForAllGraphs) {
  const int before = simulated_gpu::handles_created();
  builds({.build_threads = 4});
  EXPECT_EQ(simulated_gpu::handles_created() - before, 1 + 4);
}

TEST_F(EnginePoolTest, BuildsOneEngineOfEachGraphWithoutFurtherHandles) {
  simulated_gpu::set_further_handles(false);
  EXPECT_GT(builds(), 10u);  // with the handle of the target
  simulated_gpu::set_further_handles(true);
  EXPECT_GT(builds(), 10u);  // the selection was not complete, so it was not stored
}

TEST_F(EnginePoolTest, ReportsProgressForEachEngine) {
  class Counter final : public core::ProgressMonitor {
   public:
    void begin(core::Activity, std::int64_t) override {}
    void advance() noexcept override { ++count; }
    std::atomic<std::size_t> count = 0;
  } counter;
  const std::size_t built = builds({.build_threads = 2, .progress = &counter});
  EXPECT_GE(counter.count, built);
}

TEST_F(EnginePoolTest, PlansOfTheCacheAreNotBuiltAgain) {
  EXPECT_GT(builds(), 0u);
  EXPECT_EQ(builds(), 0u);
}

TEST_F(EnginePoolTest, LostPlanIsBuiltOnceAndStoredAgain) {
  builds();
  std::size_t plans = 0;
  for ([[maybe_unused]] const auto& file :
       std::filesystem::directory_iterator(folder_ / "cache" / "plans"))
    ++plans;
  std::filesystem::remove_all(folder_ / "cache" / "plans");
  EXPECT_EQ(builds(), plans) << "only the selected engine of each graph";
  EXPECT_EQ(builds(), 0u);
}

TEST_F(EnginePoolTest, LostPlanOfAPrecompiledEngineIsStoredAgain) {
  cache_file_ = folder_ / "engines.json";
  choose(last_is_fastest(2, {.name = "pre"}));
  std::filesystem::remove_all(folder_ / "plans");
  EXPECT_EQ(name_of(choose(last_is_fastest(2, {.name = "pre"}))), "pre1");
  EXPECT_THAT(engine_calls().built, SizeIs(1));
  EXPECT_EQ(name_of(choose(last_is_fastest(2, {.name = "pre"}))), "pre1");
  EXPECT_THAT(engine_calls().built, IsEmpty());
}

TEST_F(EnginePoolTest, FirstEightEnginesOfAllGraphsAreBuiltFirst) {
  std::vector<Engine> engines;
  for (int i = 0; i < 12; ++i)
    engines.push_back({.name = std::to_string(i), .is_runtime_compiled = true});
  simulated_gpu::set_engines(engines);
  DnnPlanner requests(target_, {}, EngineCache(), {}, Planning::requests);
  for (const std::int64_t images : {2, 4, 6})
    convolution_forward(requests, {images, 1, 1, 1, 1, 1, 1, 0}, precision_);
  DnnPlanner planner(target_, {}, EngineCache());
  planner.build_engines(requests.requests());
  const auto built = engine_calls().built;
  ASSERT_THAT(built, SizeIs(3 * 12));
  for (std::size_t i = 0; i < built.size(); ++i) EXPECT_EQ(std::stoi(built[i]) < 8, i < 3 * 8) << i;
}

// --- total time limit ---

TEST_F(EnginePoolTest, TotalLimitKeepsTheFastestEngineSoFarAndStoresNothing) {
  cache_file_ = folder_ / "engines.json";
  std::vector<Engine> engines = last_is_fastest(60, {.name = "pre"});  // 60 x 9 runs of 2 ms
  engines[1].run_seconds = 1e-3;
  const EngineRules limited{.total_seconds = 0.5};
  EXPECT_EQ(name_of(choose(engines, limited)), "pre1");
  EXPECT_THAT(log_lines("\"cut_off\":true"), SizeIs(60));
  EXPECT_THAT(log_lines("not timed: --engine-seconds was reached"), Not(IsEmpty()));
  EXPECT_FALSE(std::filesystem::exists(cache_file_));
  EXPECT_EQ(name_of(choose_again({})), "pre59") << "selected again without the limit";
  EXPECT_THAT(log_lines("\"cut_off\":true"), IsEmpty());
  EXPECT_EQ(name_of(choose_again(limited)), "pre59") << "from the cache";
  EXPECT_THAT(log_lines("\"cut_off\":true"), IsEmpty());
}

TEST_F(EnginePoolTest, CompleteSelectionWithinTheLimitIsStored) {
  cache_file_ = folder_ / "engines.json";
  EXPECT_EQ(name_of(choose(last_is_fastest(3, {.name = "pre"}), {.total_seconds = 60})), "pre2");
  EXPECT_THAT(log_lines("\"cut_off\":true"), IsEmpty());
  choose_again({});
  EXPECT_THAT(log_lines("\"cached\":true"), SizeIs(1));
}

TEST_F(EnginePoolTest, ConvolutionHasAnEngineAfterTheLimitAndBatchNormHasNone) {
  simulated_gpu::set_engines(engines_);
  DnnPlanner planner(target_, {.total_seconds = 1e-6}, EngineCache(), EngineLog(folder_ / "log"));
  EXPECT_NE(convolution_forward(planner, {2, 1, 1, 1, 1, 1, 1, 0}, precision_), nullptr);
  const PlannedGraph norm =
      batch_norm_forward(planner, norm_shape, precision_, BatchNormTail::none, 1e-5f, 0.1f);
  EXPECT_EQ(norm.graph, nullptr);
  EXPECT_THAT(norm.refusal, HasSubstr("--engine-seconds"));
  EXPECT_THAT(planner.cut_off(), SizeIs(2));
  EXPECT_EQ(planner.remembered_seconds("pass", precision_, [] { return 1.0; }), 0);
  EXPECT_THAT(planner.cut_off(), SizeIs(3));
}

TEST_F(EnginePoolTest, BackendCountsTheSelectionsThatTheLimitCutsOff) {
  simulated_gpu::set_engines(engines_);
  const auto limited = make({.engine_seconds = 1e-6});
  const PlanOptions options{.batch = 2, .precision = precision_};
  const auto choices = limited->choices(graph_, options);
  EXPECT_GT(limited->cut_off_selections(), 10u);
  for (const OperationChoice& choice : choices) {
    if (graph_.node(choice.node).operation.is<graph::BatchNorm>()) {
      EXPECT_EQ(choice.implementation, "two passes");
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache" / "engines.json"));
  const auto unlimited = make();
  unlimited->choices(graph_, options);
  EXPECT_EQ(unlimited->cut_off_selections(), 0u);
}

}  // namespace
}  // namespace lockstep::backend::cuda
