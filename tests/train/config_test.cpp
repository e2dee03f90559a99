#include "lockstep/train/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "lockstep/core/error.hpp"
#include "lockstep/train/choices.hpp"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

Config with_batch(std::int64_t per_rank) {
  Config config;
  config.batch_per_rank = per_rank;
  return config;
}

std::string refusal(const Config& config, int ranks) {
  try {
    resolve(config, ranks);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    return error.what();
  }
  return "not refused";
}

TEST(Config, EitherBatchGivesTheOther) {
  EXPECT_EQ(resolve(with_batch(32), 4).global_batch, 128);
  Config config;
  config.global_batch = 128;
  EXPECT_EQ(resolve(config, 4).batch_per_rank, 32);
  EXPECT_THAT(refusal(config, 3), HasSubstr("multiple of 3"));
}

TEST(Config, WantsExactlyOneBatch) {
  EXPECT_THAT(refusal(Config{}, 1), HasSubstr("no batch was given"));
  Config both = with_batch(32);
  both.global_batch = 32;
  EXPECT_THAT(refusal(both, 1), HasSubstr("both batches"));
}

TEST(Config, TwoEpochsUnlessSaidOtherwise) {
  EXPECT_EQ(resolve(with_batch(1), 1).epochs, 2);
  Config steps = with_batch(1);
  steps.steps = 5;
  EXPECT_EQ(resolve(steps, 1).epochs, 0);
  steps.epochs = 1;
  EXPECT_THAT(refusal(steps, 1), HasSubstr("--epochs and --steps"));
}

TEST(Config, RefusesValuesWithoutMeaningNamingTheOption) {
  const std::map<std::string, std::function<void(Config&)>> wrong{
      {"--momentum", [](Config& c) { c.momentum = 1; }},
      {"--watchdog 9300000000: must be from 0 (off) to 1000000000 seconds",
       [](Config& c) { c.watchdog_seconds = 9'300'000'000; }},
      {"--watchdog -1", [](Config& c) { c.watchdog_seconds = -1; }},
      {"--bucket-mib 1e+300", [](Config& c) { c.bucket_mib = 1e300; }},
      {"--lr ", [](Config& c) { c.learning_rate = -1; }},
      {"--lr-reference-batch", [](Config& c) { c.reference_batch = 0; }},
      {"--bucket-mib", [](Config& c) { c.bucket_mib = 0; }},
      {"--keep", [](Config& c) { c.keep = 0; }},
      {"--nesterov", [](Config& c) { c.nesterov = true, c.momentum = 0; }},
      {"--label-smoothing", [](Config& c) { c.label_smoothing = 1; }},
      {"--gradient-dtype", [](Config& c) { c.gradient_type = core::DataType::float16; }},
      {"--resume auto", [](Config& c) { c.resume = "auto"; }},
      {"--reducer none",
       [](Config& c) {
         c.reducer = comm::ReducerKind::none;
         c.batch_norm = BatchNormMode::sync;
       }},
  };
  for (const auto& [option, spoil] : wrong) {
    Config config = with_batch(8);
    spoil(config);
    EXPECT_THAT(refusal(config, 2), HasSubstr(option));
  }
}

TEST(Config, EntriesNameEveryOptionOnceAndAsTheCommandLineWould) {
  Config config = with_batch(8);
  config.checkpoint_seconds = 0;
  config.checkpoint_steps = 50;
  config.evaluate_every = -1;
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : entries(config)) {
    EXPECT_TRUE(found.emplace(name, value).second) << name << " stands there twice";
  }
  EXPECT_EQ(found.at("device"), "auto");
  EXPECT_EQ(found.at("checkpoint-every"), "50-steps");
  EXPECT_EQ(found.at("evaluate-every"), "never");
  EXPECT_EQ(found.at("nesterov"), "false");
  EXPECT_EQ(found.at("weight-decay"), "0.0005");
}

TEST(Config, PathsMayDifferBetweenRanksButNotWhatIsComputed) {
  std::map<std::string, std::string> shared;
  for (const auto& entry : shared_entries(with_batch(8))) shared.insert(entry);
  EXPECT_FALSE(shared.contains("output"));
  EXPECT_FALSE(shared.contains("data"));
  EXPECT_TRUE(shared.contains("seed"));
  EXPECT_TRUE(shared.contains("command"));
}

TEST(Config, TheLearningRateScalesWithTheGlobalBatch) {
  Config config = with_batch(128);
  config.scaling = optim::Scaling::linear;
  EXPECT_DOUBLE_EQ(resolve(config, 4).peak_learning_rate(), 0.4);
}

}  // namespace
}  // namespace lockstep::train
