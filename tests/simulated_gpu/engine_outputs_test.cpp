// SPDX-License-Identifier: BSD-3-Clause
// Tests the comparison of the outputs of cuDNN engines with engines of a simulated GPU that compute
// wrong results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/device/kernel_stopwatch.hpp"
#include "simulated_gpu/engine_choice.hpp"

namespace lockstep::backend::cuda {
namespace {

using core::Precision;
using simulated_gpu::Engine;
using simulated_gpu::Writes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using EngineOutputs = EngineChoiceTest;

Engine right(const std::string& name) { return {.name = name, .run_seconds = slow}; }

/// Fast engines with wrong outputs.
const std::vector<Engine> wrong{
    {.name = "wrong values", .factor = 1.5f},
    {.name = "writes nothing", .writes = Writes::nothing},
    {.name = "lacks the last element", .writes = Writes::all_but_last},
    {.name = "adds", .writes = Writes::additions},
};

TEST_F(EngineOutputs, WrongEngineIsRefusedAndLoggedAtEveryPosition) {
  for (const Engine& engine : wrong) {
    for (std::size_t position = 0; position < 3; ++position) {
      SCOPED_TRACE(engine.name + " at " + std::to_string(position));
      std::vector<Engine> engines{right("right"), right("right too")};
      engines.insert(engines.begin() + static_cast<std::ptrdiff_t>(position), engine);
      EXPECT_THAT(name_of(choose(engines)), HasSubstr("right"));
      const auto refused = log_lines("\"refusal\":\"its output");
      ASSERT_THAT(refused, SizeIs(1));
      EXPECT_THAT(refused[0], HasSubstr("\"engine\":\"eng" + std::to_string(position) + "\""));
      EXPECT_THAT(refused[0], HasSubstr("\"seconds\":null"));
    }
  }
}

TEST_F(EngineOutputs, LogNamesTheReferenceAndTheDistance) {
  choose({wrong[0], right("right"), right("right too")});
  // |1.5 y - y| / |y| = 0.5; the tolerance of bf16 is 1e-3 + 8 x 2^-8.
  EXPECT_THAT(log_lines("its output differs from that of eng1 by 0.5, more than 0.032\""),
              SizeIs(1));
  choose({wrong[1], right("right"), right("right too")});
  EXPECT_THAT(log_lines("its output has elements that it did not write or that are not finite"),
              SizeIs(1));
}

TEST_F(EngineOutputs, EnginesMayDifferByTheirRounding) {
  const Engine rounds{.name = "rounds", .factor = 1.01f};
  for (const auto& [precision, name] : {std::pair{Precision::bf16, "rounds"},
                                        {Precision::fp16, "right"},
                                        {Precision::fp32, "right"}}) {
    precision_ = precision;
    EXPECT_EQ(name_of(choose({right("right"), rounds, right("right too")})).substr(0, 5),
              std::string(name).substr(0, 5))
        << core::name(precision);
  }
}

TEST_F(EngineOutputs, FirstFiniteEngineIsKeptIfNoTwoAgree) {
  EXPECT_EQ(name_of(choose({right("first"), wrong[0]})), "first");
  EXPECT_THAT(log_lines("no two engines agree"), SizeIs(1));
  EXPECT_EQ(name_of(choose({wrong[1], right("finite")})), "finite");
}

TEST_F(EngineOutputs, AreNotComparedIfTheyAreNotFinite) {
  Engine slow_one = wrong[1];
  slow_one.run_seconds = slow;
  EXPECT_EQ(name_of(choose({slow_one, wrong[2]})), "lacks the last element");
  EXPECT_THAT(log_lines("its output"), IsEmpty());
}

// Engines without finite outputs agree with none, so that they must not displace the others.
TEST_F(EngineOutputs, EnginesThatWriteNothingDoNotHideTheOthers) {
  Engine fast_one = right("right too");
  fast_one.run_seconds = fast;
  EXPECT_EQ(name_of(choose({wrong[1], wrong[1], wrong[1], wrong[1], right("right"), fast_one})),
            "right too");
  EXPECT_THAT(log_lines("its output has elements"), SizeIs(4));
}

// With fp16, the outputs of all right engines can overflow; a wrong one must not displace them.
TEST_F(EngineOutputs, NothingIsRefusedIfOutputsOverflowAndNoTwoAgree) {
  const Engine overflows{.name = "overflows", .factor = 1e30f};
  precision_ = Precision::fp16;
  EXPECT_EQ(name_of(choose({overflows, overflows, right("finite")})), "overflows");
  EXPECT_THAT(log_lines("its output"), IsEmpty());
}

// An engine that rounds partial sums may differ by 1e-3 + 32 x 2^-8 in bf16, wherever it stands.
TEST_F(EngineOutputs, NarrowSumsMayDifferMore) {
  const Engine narrow{.name = "narrow",
                      .run_seconds = slow,
                      .numerical_notes = {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
                      .factor = 1.06f};
  for (const auto& engines : {std::vector{narrow, right("right"), right("right too")},
                              std::vector{right("right"), narrow, right("right too")}}) {
    choose(engines);
    EXPECT_THAT(log_lines("its output"), IsEmpty());
  }
}

// The factors of a weight gradient must not be the same tensor: the sum of their squares can
// overflow in fp16.
TEST_F(EngineOutputs, InputsOfATrialDiffer) {
  constexpr std::size_t bytes = 4096;
  const core::Buffer a = random_buffer(bytes, core::DataType::float32, 0),
                     b = random_buffer(bytes, core::DataType::float32, 1),
                     again = random_buffer(bytes, core::DataType::float32, 1);
  EXPECT_NE(std::memcmp(a.data(), b.data(), bytes), 0);
  EXPECT_EQ(std::memcmp(b.data(), again.data(), bytes), 0);
}

TEST_F(EngineOutputs, EnginesMayAddToSumsThatAreZeroed) {
  const std::vector<Engine> engines{
      right("overwrites"), {.name = "adds to sums", .writes = Writes::added_sums}, right("too")};
  simulated_gpu::set_engines(engines);
  DnnPlanner planner(target_, {}, EngineCache(), EngineLog(folder_ / "log"));
  const auto sums = convolution_with_sums(planner, {2, 1, 4, 4, 3, 1, 1, 0}, core::Precision::bf16);
  EXPECT_EQ(name_of(sums.graph), "adds to sums");
  EXPECT_THAT(log_lines("its output"), IsEmpty());
}

}  // namespace
}  // namespace lockstep::backend::cuda
