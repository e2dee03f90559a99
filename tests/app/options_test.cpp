#include "options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "help.hpp"
#include "lockstep/core/error.hpp"
#include "option_table.hpp"
#include "suggestion.hpp"

namespace lockstep::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::vector<std::string>& arguments,
                    const Environment& environment = {}) {
  try {
    parse_options(arguments, environment);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    const std::string message = error.what();
    EXPECT_THAT(message, ::testing::Not(HasSubstr("\n")));
    return message;
  }
  return "not refused";
}

/// A config file that is removed at the end of the test.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(::testing::TempDir() + "lockstep-options-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".ini") {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::string path_;
};

TEST(Options, TakeValuesInBothForms) {
  const auto config = parse_options(
      {"train", "--batch-per-rank", "32", "--lr=0.25", "--nesterov", "--augment=none"}, {});
  EXPECT_EQ(config.command, "train");
  EXPECT_EQ(config.batch_per_rank, 32);
  EXPECT_EQ(config.learning_rate, 0.25);
  EXPECT_TRUE(config.nesterov);
  EXPECT_EQ(config.augment, data::Augmentation::none);
  EXPECT_FALSE(config.overwrite);
}

TEST(Options, TheDefaultsAreThoseOfConfig) {
  const train::Config defaults;
  EXPECT_EQ(train::entries(parse_options({"train"}, {})), train::entries(defaults));
}

// Every option must set the field that the run file records under the name of the option.
TEST(Options, EveryEntryOfTheRunFileIsAnOptionThatCanBeGivenBack) {
  train::Config config;
  config.checkpoint_steps = 7;
  config.checkpoint_seconds = 0;
  config.evaluate_every = -1;
  config.device = backend::DeviceKind::reference;
  config.schedule = optim::ScheduleKind::cosine;
  config.output = "somewhere.h5";
  config.seed = 18446744073709551615u;
  config.link_gbit = 2.5;
  std::vector<std::string> arguments{"train"};
  train::Config unused;
  const OptionTable table(unused);
  for (const auto& [name, value] : train::entries(config)) {
    if (name == "command" || value == "false" || value.empty()) continue;
    if (!table.is_used("train", name)) continue;
    const bool is_size =
        name == "batch-per-rank" || name == "global-batch" || name == "epochs" || name == "steps";
    if (is_size && value == "0") continue;  // 0 in the run file means "not given"
    arguments.push_back("--" + name + "=" + value);
  }
  EXPECT_EQ(train::entries(parse_options(arguments, {})), train::entries(config));
}

TEST(Options, CommandLineBeforeEnvironmentBeforeFileBeforeDefault) {
  const ConfigFile file("lr = 1\nmomentum = 0.1\nweight-decay = 0.01\nnesterov = true\n");
  const auto config = parse_options({"train", "--config", file.path(), "--lr", "3"},
                                    {"LOCKSTEP_LR=2", "LOCKSTEP_MOMENTUM=0.2", "PATH=/bin"});
  EXPECT_EQ(config.learning_rate, 3);
  EXPECT_EQ(config.momentum, 0.2);
  EXPECT_EQ(config.weight_decay, 0.01);
  EXPECT_TRUE(config.nesterov);
  EXPECT_EQ(config.keep, 3);
}

TEST(Options, ANearerSourceOverridesTheRivalOfAFartherOne) {
  const ConfigFile file("batch-per-rank = 32\nepochs = 5\n");
  const auto config = parse_options({"train", "--config", file.path(), "--global-batch", "64"},
                                    {"LOCKSTEP_STEPS=9"});
  EXPECT_EQ(config.batch_per_rank, 0);
  EXPECT_EQ(config.global_batch, 64);
  EXPECT_EQ(config.steps, 9);
  EXPECT_EQ(config.epochs, 0);
}

TEST(Options, UnknownOnesAreRefusedWithASuggestionWhereverTheyCome) {
  EXPECT_THAT(refusal({"train", "--batch-per-rnk", "8"}),
              AllOf(HasSubstr("--batch-per-rnk"), HasSubstr("'batch-per-rank'")));
  EXPECT_THAT(refusal({"train", "--batch", "8"}), HasSubstr("unknown option --batch"));
  const ConfigFile file("learning-rate = 1\n");
  EXPECT_THAT(refusal({"train", "--config", file.path()}),
              AllOf(HasSubstr(file.path()), HasSubstr("learning-rate")));
  EXPECT_THAT(refusal({"train"}, {"LOCKSTEP_BATCH_PER_RNK=8"}),
              AllOf(HasSubstr("LOCKSTEP_BATCH_PER_RNK"), HasSubstr("--batch-per-rank")));
}

TEST(Options, OtherVariablesWithOurPrefixAreNoneOfOurs) {
  EXPECT_NO_THROW(parse_options({"train"}, {"LOCKSTEP_ROOT=/opt/lockstep", "LOCKSTEP_BIN=x"}));
}

TEST(Options, BadValuesAreRefusedNamingOptionAndValue) {
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--epochs", "two"},
                                                        {"--epochs", "2.5"},
                                                        {"--epochs", ""},
                                                        {"--seed", "-1"},
                                                        {"--lr", "0.1x"},
                                                        {"--lr", "nan"},
                                                        {"--threads", "1e99"},
                                                        {"--threads", "99999999999"},
                                                        {"--memory-limit", "8 apples"},
                                                        {"--memory-limit", "-1"},
                                                        {"--checkpoint-every", "180"},
                                                        {"--checkpoint-every", "0s"},
                                                        {"--checkpoint-every", "1.5-steps"},
                                                        {"--reducer", "ring"},
                                                        {"--device", "gpu"},
                                                        {"--epochs", "0"},
                                                        {"--steps", "0"},
                                                        {"--batch-per-rank", "0"},
                                                        {"--global-batch", "-4"},
                                                        {"--evaluate-every", "-2"}}) {
    EXPECT_THAT(refusal({"train", option + "=" + value}),
                AllOf(HasSubstr(option), HasSubstr(value)));
  }
  EXPECT_THAT(refusal({"train", "--reducer", "overlp"}), HasSubstr("did you mean 'overlap'"));
}

TEST(Options, WhatIsNoOptionAtAllIsRefused) {
  EXPECT_THAT(refusal({"trian"}), AllOf(HasSubstr("'trian'"), HasSubstr("'train'")));
  EXPECT_THAT(refusal({}), HasSubstr("there are: train"));
  EXPECT_THAT(refusal({"train", "stray"}), HasSubstr("'stray'"));
  EXPECT_THAT(refusal({"train", "--lr"}), HasSubstr("--lr"));
  EXPECT_THAT(refusal({"train", "--lr=1", "--lr=2"}), HasSubstr("--lr"));
  EXPECT_THAT(refusal({"train", "--nesterov=perhaps"}), HasSubstr("nesterov"));
  EXPECT_THAT(refusal({"train", "--config", "/nowhere.ini"}), HasSubstr("/nowhere.ini"));
}

TEST(Options, SizesAndTimesHaveUnits) {
  const auto with = [](const std::string& argument) {
    return parse_options({"train", argument}, {});
  };
  EXPECT_EQ(with("--memory-limit=8GB").memory_limit, 8'000'000'000u);
  EXPECT_EQ(with("--memory-limit=1.5GiB").memory_limit, 3u << 29);
  EXPECT_EQ(parse_options({"allreduce", "--max-bytes=64K"}, {}).max_bytes, 65536u);
  EXPECT_EQ(with("--checkpoint-every=10min").checkpoint_seconds, 600);
  EXPECT_EQ(with("--checkpoint-every=200-steps").checkpoint_steps, 200);
  EXPECT_EQ(with("--checkpoint-every=200-steps").checkpoint_seconds, 0);
}

TEST(Options, ZeroOrFewerThanOneIsRefusedSayingSo) {
  for (const auto* option : {"--batch-per-rank", "--global-batch", "--epochs", "--steps"}) {
    EXPECT_THAT(refusal({"train", option, "0"}), HasSubstr("must be at least 1")) << option;
  }
  EXPECT_THAT(refusal({"train"}, {"LOCKSTEP_EPOCHS=0"}), HasSubstr("must be at least 1"));
}

// An option that the command does not use is an error on the command line. It is accepted in the
// environment and in a config file, because all commands share them.
TEST(Options, CommandsRefuseOptionsThatTheyDoNotUse) {
  EXPECT_THAT(refusal({"ladder", "--batch-per-rank", "64"}),
              AllOf(HasSubstr("'lockstep ladder' does not use --batch-per-rank"),
                    HasSubstr("lockstep ladder --help")));
  EXPECT_THAT(refusal({"train", "--ladder-start=8"}), HasSubstr("--ladder-start"));
  EXPECT_THAT(refusal({"evaluate", "--output", "x.h5"}), HasSubstr("--output"));
  EXPECT_THAT(refusal({"info", "--lr", "1"}), HasSubstr("--lr"));
  EXPECT_THAT(refusal({"allreduce", "--nesterov"}), HasSubstr("--nesterov"));
  EXPECT_NO_THROW(parse_options({"ladder"}, {"LOCKSTEP_BATCH_PER_RANK=64"}));
  const ConfigFile file("batch-per-rank = 64\n");
  EXPECT_NO_THROW(parse_options({"ladder", "--config", file.path()}, {}));
}

TEST(Options, PlanAcceptsEveryOptionOfTrain) {
  train::Config config;
  const OptionTable table(config);
  for (const auto& name : table.names_of("train")) EXPECT_TRUE(table.is_used("plan", name)) << name;
}

TEST(Help, IsGivenWhereItIsAskedForAndNamesEveryOptionOfTheCommand) {
  EXPECT_FALSE(information_asked_for({"train", "--lr", "1"}));
  EXPECT_THAT(information_asked_for({}).value(), HasSubstr("lockstep train"));
  EXPECT_THAT(information_asked_for({"--help"}).value(), HasSubstr("lockstep ladder"));
  EXPECT_THAT(information_asked_for({"--version"}).value(), HasSubstr("lockstep"));
  const std::string text = information_asked_for({"train", "--help"}).value();
  train::Config config;
  const OptionTable table(config);
  for (const std::string& command : command_names()) {
    const std::string help = information_asked_for({command, "--help"}).value();
    for (const auto& name : table.names()) {
      EXPECT_EQ(help.find("--" + name + " ") != std::string::npos, table.is_used(command, name))
          << command << " --" << name;
    }
  }
  EXPECT_THAT(text, AllOf(HasSubstr("[0.1]"), HasSubstr("Optimiser:"), HasSubstr("mpirun -n 2")));
}

TEST(Suggestion, CountsLetters) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(suggestion("zzzzzz", {"epochs", "steps"}), "");
}

TEST(Suggestion, KnowsBeginningsAndSynonyms) {
  EXPECT_THAT(refusal({"train", "--model", "resnet18"}),
              HasSubstr("did you mean 'resnet18-cifar'"));
  EXPECT_THAT(refusal({"train", "--device", "gpu"}), HasSubstr("did you mean 'cuda'"));
  EXPECT_THAT(refusal({"train", "--precision", "bfloat16"}), HasSubstr("did you mean 'bf16'"));
  EXPECT_EQ(suggestion("gpu", {"red", "green"}), "");
}

}  // namespace
}  // namespace lockstep::app
