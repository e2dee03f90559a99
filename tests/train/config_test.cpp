// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>

#include "expect_error.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

Config with_batch(std::int64_t per_rank) {
  Config config;
  config.batch_per_rank = per_rank;
  return config;
}

std::string refusal(const Config& config, int ranks) {
  return expect_error(core::ExitStatus::usage, {}, [&] { resolve(config, ranks); });
}

TEST(Config, EitherBatchGivesTheOther) {
  EXPECT_EQ(resolve(with_batch(32), 4).global_batch, 128);
  Config config;
  config.global_batch = 128;
  EXPECT_EQ(resolve(config, 4).batch_per_rank, 32);
  EXPECT_THAT(refusal(config, 3), HasSubstr("multiple of 3"));
}

TEST(Config, WantsExactlyOneBatch) {
  EXPECT_THAT(refusal(Config{}, 1), HasSubstr("no batch size was given"));
  Config both = with_batch(32);
  both.global_batch = 32;
  EXPECT_THAT(refusal(both, 1), HasSubstr("both batch sizes"));
}

TEST(Config, TwoEpochsUnlessSaidOtherwise) {
  EXPECT_EQ(resolve(with_batch(1), 1).epochs, 2);
  Config steps = with_batch(1);
  steps.steps = 5;
  EXPECT_EQ(resolve(steps, 1).epochs, 0);
  steps.epochs = 1;
  EXPECT_THAT(refusal(steps, 1), HasSubstr("--epochs and --steps"));
}

TEST(Config, RefusesContradictionsNamingTheOptions) {
  const std::map<std::string, std::function<void(Config&)>> wrong{
      {"--nesterov", [](Config& c) { c.optimiser.nesterov = true, c.optimiser.momentum = 0; }},
      {"--nesterov is not used by --optimizer lars",
       [](Config& c) { c.optimiser.kind = optim::Kind::lars, c.optimiser.nesterov = true; }},
      {"--momentum is not used by --optimizer adamw",
       [](Config& c) { c.optimiser.kind = optim::Kind::adamw, c.optimiser.momentum = 0.9; }},
      {"--trust-coefficient is not used by --optimizer sgd",
       [](Config& c) { c.optimiser.trust = 0.001; }},
      {"--gradient-dtype", [](Config& c) { c.reducer.gradient_type = core::DataType::float16; }},
      {"--resume auto", [](Config& c) { c.checkpoint.resume = "auto"; }},
      {"--reducer none",
       [](Config& c) {
         c.reducer.kind = comm::ReducerKind::none;
         c.batch_norm = BatchNormMode::sync;
       }},
      {"--data-residency device",
       [](Config& c) {
         c.reducer.kind = comm::ReducerKind::parameter_server;
         c.data.residency = data::DataResidency::device;
       }},
      {"--precision fp16",
       [](Config& c) {
         c.reducer.kind = comm::ReducerKind::parameter_server;
         c.plan.precision = core::Precision::fp16;
       }},
  };
  for (const auto& [option, spoil] : wrong) {
    Config config = with_batch(8);
    spoil(config);
    EXPECT_THAT(refusal(config, 2), HasSubstr(option));
  }
}

TEST(Config, TheDefaultsDependOnTheOptimiser) {
  const auto rates = [](optim::Kind kind) {
    Config config = with_batch(8);
    config.optimiser.kind = kind;
    const optim::Options options = resolve(config, 1).optimiser;
    return std::array{options.learning_rate, options.momentum, options.weight_decay, options.trust};
  };
  constexpr double none = optim::Options::automatic;
  EXPECT_EQ(rates(optim::Kind::sgd), (std::array{0.1, 0.9, 5e-4, none}));
  EXPECT_EQ(rates(optim::Kind::lars), (std::array{2.0, 0.9, 5e-4, 0.001}));
  EXPECT_EQ(rates(optim::Kind::adamw), (std::array{0.001, none, 0.01, none}));
  Config config = with_batch(8);
  config.optimiser.learning_rate = 0;
  EXPECT_EQ(resolve(config, 1).optimiser.learning_rate, 0);
}

TEST(Config, TheLearningRateScalesWithTheGlobalBatch) {
  Config config = with_batch(128);
  config.optimiser.learning_rate = 0.1;
  config.optimiser.scaling = optim::Scaling::linear;
  EXPECT_DOUBLE_EQ(config.optimiser.peak(resolve(config, 4).global_batch), 0.4);
}

}  // namespace
}  // namespace lockstep::train
