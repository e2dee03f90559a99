// SPDX-License-Identifier: BSD-3-Clause
// Tests the selection of cuDNN engines with scripted engines of a simulated GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/dnn/convolution_graphs.hpp"
#include "backend/cuda/dnn/dnn_graph.hpp"
#include "lockstep/core/error.hpp"
#include "simulated_gpu/engine_choice.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::cuda {
namespace {

using core::Precision;
using simulated_gpu::Engine;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAreArray;

using EngineChoice = EngineChoiceTest;

TEST_F(EngineChoice, BuildsAndTimesEveryPrecompiledEngine) {
  const auto engines = last_is_fastest(40, {.name = "pre"});
  const auto graph = choose(engines);
  EXPECT_EQ(name_of(graph), "pre39");
  EXPECT_GT(graph->seconds(), 0);
  EXPECT_THAT(simulated_gpu::engine_calls().built, UnorderedElementsAreArray(names_of(engines)));
  const auto run = simulated_gpu::engine_calls().run;
  EXPECT_EQ(std::set<std::string>(run.begin(), run.end()).size(), engines.size());
}

TEST_F(EngineChoice, SlowBuildOfTheFirstEngineDropsNoPrecompiledEngine) {
  auto engines = last_is_fastest(20, {.name = "pre"});
  engines.insert(
      engines.begin(),
      {.name = "first", .is_runtime_compiled = true, .build_seconds = 0.2, .run_seconds = slow});
  const auto graph = choose(engines, {.build_seconds = 0.01});
  EXPECT_EQ(name_of(graph), "pre19");
  EXPECT_THAT(simulated_gpu::engine_calls().built, SizeIs(21));
}

TEST_F(EngineChoice, RuntimeCompiledEnginesAreBuiltInParallelAndAllTimed) {
  constexpr double build_seconds = 0.2;
  const auto engines = last_is_fastest(
      12, {.name = "rt", .is_runtime_compiled = true, .build_seconds = build_seconds});
  const auto begin = std::chrono::steady_clock::now();
  const auto graph = choose(engines, {.build_threads = 4});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(name_of(graph), "rt11");
  EXPECT_THAT(simulated_gpu::engine_calls().built, UnorderedElementsAreArray(names_of(engines)));
  EXPECT_THAT(log_lines("\"kind\":\"runtime_compiled\""), SizeIs(12));
  EXPECT_THAT(log_lines("\"seconds\":null"), IsEmpty()) << "not timed";
  EXPECT_LT(taken.count(), 12 * build_seconds) << "one after the other";
}

TEST_F(EngineChoice, TimeLimitKeepsTheFirstRuntimeCompiledEngines) {
  const auto engines =
      last_is_fastest(8, {.name = "rt", .is_runtime_compiled = true, .build_seconds = 0.2});
  const auto graph = choose(engines, {.build_threads = 1, .build_seconds = 0.3});
  const auto built = simulated_gpu::engine_calls().built;
  ASSERT_GE(built.size(), 1u);
  ASSERT_LT(built.size(), 8u);
  EXPECT_EQ(built.front(), "rt0");
  EXPECT_NE(name_of(graph), "rt7");
  EXPECT_THAT(log_lines("time limit"), SizeIs(8 - built.size()));
}

TEST_F(EngineChoice, TimeLimitDoesNotEndTheSearchForAFirstEngine) {
  std::vector<Engine> engines(3, {.name = "refused",
                                  .is_runtime_compiled = true,
                                  .build_seconds = 0.05,
                                  .refusal = "no kernel"});
  for (std::size_t i = 0; i < engines.size(); ++i) engines[i].name += std::to_string(i);
  engines.push_back({.name = "works", .is_runtime_compiled = true});
  EXPECT_EQ(name_of(choose(engines, {.build_seconds = 0.01})), "works");
}

TEST_F(EngineChoice, EngineIsBuiltWithoutThreadsIfNoFurtherHandleCanBeCreated) {
  simulated_gpu::set_further_handles(false);
  const auto engines = last_is_fastest(3, {.name = "rt", .is_runtime_compiled = true});
  EXPECT_EQ(name_of(choose(engines, {.build_threads = 2})), "rt0");
  simulated_gpu::set_further_handles(true);
}

TEST_F(EngineChoice, SingleCandidateIsNotTimed) {
  const auto graph = choose({{.name = "only"}, {.name = "refused", .refusal = "no kernel"}});
  EXPECT_EQ(name_of(graph), "only");
  EXPECT_EQ(graph->seconds(), 0);
  EXPECT_THAT(simulated_gpu::engine_calls().run, IsEmpty());
}

const std::vector<Engine> mixed{
    {.name = "compiled", .is_runtime_compiled = true, .has_tensor_cores = true},
    {.name = "plain"},
    {.name = "tensor", .has_tensor_cores = true},
    {.name = "tensor again", .has_tensor_cores = true}};

TEST_F(EngineChoice, QuickTakesTheFirstPrecompiledEngineWithTensorCores) {
  const auto graph = choose(mixed, {.selection = EngineSelection::quick});
  EXPECT_EQ(name_of(graph), "tensor");
  EXPECT_EQ(graph->seconds(), 0);
  EXPECT_THAT(simulated_gpu::engine_calls().built, testing::ElementsAre("tensor"));
  EXPECT_THAT(simulated_gpu::engine_calls().run, IsEmpty());
}

TEST_F(EngineChoice, QuickIgnoresTheEngineCache) {
  cache_file_ = folder_ / "engines.json";
  auto engines = mixed;
  for (Engine& engine : engines) engine.run_seconds = engine.is_runtime_compiled ? fast : slow;
  EXPECT_EQ(name_of(choose(engines)), "compiled");
  EXPECT_EQ(name_of(choose_again({})), "compiled");
  EXPECT_EQ(name_of(choose_again({.selection = EngineSelection::quick})), "tensor");
}

TEST_F(EngineChoice, QuickNamesTheOptionIfOnlyCompiledEnginesExist) {
  try {
    choose({mixed.front()}, {.selection = EngineSelection::quick});
    FAIL() << "not refused";
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--engines quick"));
  }
}

TEST_F(EngineChoice, TrialThatExceedsTheFreeMemoryIsSkippedWithoutAnAllocation) {
  simulated_gpu::set_free_memory(std::size_t{1} << 20);
  const int before = simulated_gpu::count_failed_allocations();
  const auto graph = choose(last_is_fastest(3, {.name = "pre"}));
  EXPECT_EQ(name_of(graph), "pre0");
  EXPECT_THAT(simulated_gpu::engine_calls().run, IsEmpty());
  EXPECT_EQ(simulated_gpu::count_failed_allocations(), before);
}

TEST_F(EngineChoice, LogHasOneLinePerCandidate) {
  choose({{.name = "slow one", .run_seconds = slow, .workspace_bytes = 256},
          {.name = "fast one"},
          {.name = "refused", .refusal = "no \"kernel\""}});
  const auto lines = log_lines();
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], HasSubstr(R"("graph":"convolution n2 c1 h1 w1 k1 r1 stride1 pad0 bf16")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("engine":"eng0","kind":"precompiled")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("workspace_bytes":256,"refusal":null,"chosen":false)"));
  EXPECT_THAT(lines[1], HasSubstr(R"("refusal":null,"chosen":true)"));
  EXPECT_THAT(lines[1], testing::Not(HasSubstr(R"("seconds":null)")));
  EXPECT_THAT(lines[2],
              HasSubstr(R"("seconds":null,"workspace_bytes":0,"refusal":"no \"kernel\"")"));
}

TEST_F(EngineChoice, LogMarksAnEngineOfTheCache) {
  cache_file_ = folder_ / "engines.json";
  choose(last_is_fastest(2, {.name = "pre"}));
  choose_again({});
  const auto lines = log_lines();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], HasSubstr(R"("engine":"eng1")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("chosen":true,"cached":true)"));
}

TEST_F(EngineChoice, LogThatCannotBeWrittenIsAnOutputError) {
  try {
    EngineLog log(folder_ / "no such folder" / "log");
    FAIL() << "opened";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::output);
    EXPECT_THAT(error.what(), HasSubstr("--engine-log"));
  }
}

TEST_F(EngineChoice, EngineThatFailsWhenItRunsIsNotChosen) {
  const auto graph = choose({{.name = "fails", .run_refusal = "no registers"}, {.name = "works"}});
  EXPECT_EQ(name_of(graph), "works");
  EXPECT_THAT(log_lines("fails when it runs: no registers"), SizeIs(1));
}

// All builds start at once and end after the time limit.
TEST_F(EngineChoice, EngineThatFailsWhenItRunsIsNotChosenAfterTheTimeLimit) {
  const Engine pattern{.name = "is late", .is_runtime_compiled = true, .build_seconds = 0.6};
  std::vector<Engine> engines(3, pattern);
  engines[0].name = "fails", engines[0].run_refusal = "no registers";
  engines[1].name = "works";
  EXPECT_EQ(name_of(choose(engines, {.build_threads = 3, .total_seconds = 0.5})), "works");
  const auto run = simulated_gpu::engine_calls().run;
  EXPECT_EQ(std::set(run.begin(), run.end()), (std::set<std::string>{"fails", "works"}));
  EXPECT_THAT(log_lines("not timed: --engine-seconds was reached"), SizeIs(1));
}

// A kernel that fails ends the use of the GPU, so only the next process can select again.
TEST_F(EngineChoice, EngineWhoseKernelFailsIsNamedAndLeftOutOfTheNextStart) {
  cache_file_ = folder_ / "engines.json";
  const std::vector<Engine> engines{
      {.name = "works", .run_seconds = slow},
      {.name = "faulty", .is_faulty = true},
      {.name = "faulty when compiled", .is_runtime_compiled = true, .is_faulty = true}};
  for (const char* const faulty : {"eng1", "eng2"}) {
    try {
      choose(engines);
      FAIL() << "not noticed";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.status(), core::ExitStatus::internal);
      EXPECT_THAT(error.what(), HasSubstr(std::string("cuDNN's engine ") + faulty + " for conv"));
      EXPECT_THAT(error.what(), HasSubstr("running an engine failed"));
      EXPECT_THAT(error.what(), HasSubstr("it is left out from now on, start again"));
    }
    EXPECT_THAT(log_lines("running an engine failed"), SizeIs(1));
  }
  EXPECT_EQ(name_of(choose(engines)), "works");
  EXPECT_THAT(simulated_gpu::engine_calls().run, testing::Each("works"));
  EXPECT_THAT(simulated_gpu::engine_calls().built, testing::Each("works"));
  EXPECT_THAT(log_lines("\"refusal\":\"failed on this type of GPU in an earlier run\""), SizeIs(2));
  EXPECT_EQ(name_of(choose_again({.selection = EngineSelection::quick})), "works");
}

TEST_F(EngineChoice, WithoutACacheTheErrorSaysHowToLeaveOutAFaultyEngine) {
  try {
    choose({{.name = "works"}, {.name = "faulty", .is_faulty = true}});
    FAIL() << "not noticed";
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("set LOCKSTEP_CACHE_DIR"));
  }
}

TEST_F(EngineChoice, RulesExcludeEnginesByTheirNotes) {
  const std::vector<Engine> engines{
      {.name = "tensor", .has_tensor_cores = true},
      {.name = "narrow", .numerical_notes = {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}},
      {.name = "atomics", .numerical_notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
      {.name = "last"}};
  EXPECT_EQ(name_of(choose(engines, {.deterministic = true, .true_fp32 = true})), "last");
  EXPECT_EQ(name_of(choose(engines, {.deterministic = true})), "tensor");
}

TEST_F(EngineChoice, FailureOfAnExecutionNamesGraphAndEngine) {
  const auto graph = choose({{.name = "broken", .run_refusal = "no registers"}});
  std::vector<core::Buffer> tensors;
  std::vector<Binding> bindings;
  for (const std::int64_t uid :
       {convolution_tensor::x, convolution_tensor::weights, convolution_tensor::y}) {
    tensors.push_back(core::device_buffer(16, "a test"));
    bindings.push_back({uid, tensors.back().data()});
  }
  const core::Buffer workspace = core::device_buffer(graph->workspace_bytes(), "a test");
  try {
    graph->run(bindings, workspace.data());
    FAIL() << "ran";
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("eng0"));
    EXPECT_THAT(error.what(), HasSubstr("convolution n2 c1"));
    EXPECT_THAT(error.what(), HasSubstr("no registers"));
  }
}

}  // namespace
}  // namespace lockstep::backend::cuda
