// SPDX-License-Identifier: BSD-3-Clause
#include "options/option_table.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "commands.hpp"
#include "expect_error.hpp"
#include "help.hpp"
#include "lockstep/core/error.hpp"
#include "options/command_set.hpp"
#include "options/option_reference.hpp"
#include "options/parse.hpp"
#include "options/suggestion.hpp"

namespace lockstep::app {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string refusal(const std::vector<std::string>& arguments,
                    const Environment& environment = {}) {
  return expect_error(core::ExitStatus::usage, {}, [&] { parse_options(arguments, environment); });
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
  EXPECT_EQ(config.training.batch_per_rank, 32);
  EXPECT_EQ(config.training.optimiser.learning_rate, 0.25);
  EXPECT_TRUE(config.training.optimiser.nesterov);
  EXPECT_EQ(config.training.data.augmentation, data::Augmentation::none);
  EXPECT_FALSE(config.output.overwrite);
}

TEST(Options, TheDefaultsAreThoseOfConfig) {
  const Options defaults;
  EXPECT_EQ(entries(parse_options({"train"}, {})), entries(defaults));
}

// Every option must set the field that the run file records under the name of the option.
TEST(Options, EveryEntryOfTheRunFileIsAnOptionThatCanBeGivenBack) {
  Options config;
  config.training.checkpoint.steps = 7;
  config.training.checkpoint.seconds = 0;
  config.training.evaluate_every = -1;
  config.training.device.kind = backend::DeviceKind::reference;
  config.training.optimiser.schedule = optim::ScheduleKind::cosine;
  config.output.run_file = "somewhere.h5";
  config.training.seed = 18446744073709551615u;
  config.output.link_gbit = 2.5;
  std::vector<std::string> arguments{"train"};
  for (const auto& [name, value] : entries(config)) {
    if (name == "command" || value == "false" || value.empty()) continue;
    const Option* option = find_option(name);
    ASSERT_NE(option, nullptr) << name;
    if (!is_used("train", *option)) continue;
    const bool is_size = !option->alternative.empty();
    if (is_size && value == "0") continue;  // 0 in the run file means "not given"
    arguments.push_back("--" + name + "=" + value);
  }
  EXPECT_EQ(entries(parse_options(arguments, {})), entries(config));
}

TEST(Options, CommandLineBeforeEnvironmentBeforeFileBeforeDefault) {
  const ConfigFile file("lr = 1\nmomentum = 0.1\nweight-decay = 0.01\nnesterov = true\n");
  const auto config = parse_options({"train", "--config", file.path(), "--lr", "3"},
                                    {"LOCKSTEP_LR=2", "LOCKSTEP_MOMENTUM=0.2", "PATH=/bin"});
  EXPECT_EQ(config.training.optimiser.learning_rate, 3);
  EXPECT_EQ(config.training.optimiser.momentum, 0.2);
  EXPECT_EQ(config.training.optimiser.weight_decay, 0.01);
  EXPECT_TRUE(config.training.optimiser.nesterov);
  EXPECT_EQ(config.training.checkpoint.keep, 3);
}

TEST(Options, AnOptionOverridesItsAlternativeFromASourceOfLowerPrecedence) {
  const ConfigFile file("batch-per-rank = 32\nepochs = 5\n");
  const auto config = parse_options({"train", "--config", file.path(), "--global-batch", "64"},
                                    {"LOCKSTEP_STEPS=9"});
  EXPECT_EQ(config.training.batch_per_rank, 0);
  EXPECT_EQ(config.training.global_batch, 64);
  EXPECT_EQ(config.training.steps, 9);
  EXPECT_EQ(config.training.epochs, 0);
}

TEST(Options, UnknownOptionsOfEverySourceAreRefusedWithASuggestion) {
  EXPECT_THAT(refusal({"train", "--batch-per-rnk", "8"}),
              AllOf(HasSubstr("--batch-per-rnk"), HasSubstr("'batch-per-rank'")));
  EXPECT_THAT(refusal({"train", "--batch", "8"}), HasSubstr("unknown option --batch"));
  const ConfigFile file("learning-rate = 1\n");
  EXPECT_THAT(refusal({"train", "--config", file.path()}),
              AllOf(HasSubstr(file.path()), HasSubstr("learning-rate")));
  EXPECT_THAT(refusal({"train"}, {"LOCKSTEP_BATCH_PER_RNK=8"}),
              AllOf(HasSubstr("LOCKSTEP_BATCH_PER_RNK"), HasSubstr("--batch-per-rank")));
}

TEST(Options, VariablesThatNameNoOptionAreIgnored) {
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

TEST(Options, InvalidArgumentsAreRefused) {
  EXPECT_THAT(refusal({"trian"}), AllOf(HasSubstr("'trian'"), HasSubstr("'train'")));
  EXPECT_THAT(refusal({}), HasSubstr("the commands are: train"));
  EXPECT_THAT(refusal({"train", "stray"}), HasSubstr("'stray'"));
  EXPECT_THAT(refusal({"train", "--lr"}), HasSubstr("--lr requires a value"));
  EXPECT_THAT(refusal({"train", "--lr="}), HasSubstr("--lr requires a value"));
  EXPECT_THAT(refusal({"train", "--lrr="}), HasSubstr("unknown option --lrr"));
  EXPECT_THAT(refusal({"train", "--lr=1", "--lr=2"}), HasSubstr("--lr is given twice"));
  EXPECT_THAT(refusal({"train", "--nesterov=1"}), HasSubstr("--nesterov takes no value"));
  EXPECT_THAT(refusal({"train", "--nesterov", "--nesterov"}), HasSubstr("--nesterov is given"));
  EXPECT_THAT(refusal({"train", "--config", "/nowhere.ini"}),
              HasSubstr("--config /nowhere.ini: cannot be read"));
  EXPECT_THAT(refusal({"train", "--config", "/"}), HasSubstr("--config /: cannot be read"));
}

TEST(Options, ConfigFilesOfOtherFormatsAreRefused) {
  for (const auto& [text, kind] : std::vector<std::pair<std::string, std::string>>{
           {"[{\"lr\": 1}]", "is a JSON text"},
           {"{\"lr\": 1}\n", "is a JSON text"},
           {"<?xml version=\"1.0\"?>", "is an XML text"},
           {"BZh9", "is a bzip2 archive"}}) {
    const ConfigFile file(text);
    EXPECT_THAT(refusal({"train", "--config", file.path()}),
                AllOf(HasSubstr(file.path()), HasSubstr(kind), HasSubstr("one option per line")));
  }
}

TEST(Options, FlagsHaveValuesInTheEnvironmentAndInFiles) {
  const auto is_on = [](const std::string& value) {
    return parse_options({"train"}, {"LOCKSTEP_NESTEROV=" + value}).training.optimiser.nesterov;
  };
  for (const auto* value : {"true", "1", "Yes", "ON", ""}) EXPECT_TRUE(is_on(value)) << value;
  for (const auto* value : {"false", "0", "no", "Off"}) EXPECT_FALSE(is_on(value)) << value;
  const ConfigFile file("nesterov = true\n");
  EXPECT_TRUE(parse_options({"train", "--config", file.path()}, {}).training.optimiser.nesterov);
  EXPECT_FALSE(parse_options({"train", "--config", file.path()}, {"LOCKSTEP_NESTEROV=0"})
                   .training.optimiser.nesterov);
  EXPECT_TRUE(
      parse_options({"train", "--nesterov"}, {"LOCKSTEP_NESTEROV=0"}).training.optimiser.nesterov);
  EXPECT_THAT(refusal({"train"}, {"LOCKSTEP_NESTEROV=maybe"}), HasSubstr("--nesterov maybe"));
}

// Boost searches the text that it has inserted for a placeholder of a message for the placeholder
// again, so that a text that contains its own placeholder is replaced endlessly.
TEST(Options, PlaceholdersOfBoostAreOrdinaryText) {
  for (const std::string text : {"%value%", "%canonical_option%", "%option%", "%prefix%",
                                 "%original_token%", "%invalid_line%"}) {
    for (const auto* value : {"", "=", "=3"}) {
      EXPECT_THAT(refusal({"train", "--" + text + value}), HasSubstr(text)) << value;
    }
    EXPECT_THAT(refusal({"train", "--epochs", text}), HasSubstr(text));
    EXPECT_THAT(refusal({"train", "--nesterov=" + text}), HasSubstr("nesterov"));
    EXPECT_THAT(refusal({"train"}, {"LOCKSTEP_NESTEROV=" + text}), HasSubstr(text));
    for (const std::string& line : {text, text + "=3", "nesterov=" + text}) {
      const ConfigFile file(line + "\n");
      EXPECT_THAT(refusal({"train", "--config", file.path()}), HasSubstr(text)) << line;
    }
  }
}

TEST(Options, SizesAndTimesHaveUnits) {
  const auto with = [](const std::string& argument) {
    return parse_options({"train", argument}, {});
  };
  const std::pair<const char*, std::uint64_t> sizes[] = {
      {"8GB", 8'000'000'000}, {"8gb", 8'000'000'000}, {"1.5GiB", 3u << 29}, {"1.5 GiB", 3u << 29},
      {"1.5G", 3u << 29},     {"128m", 128u << 20},   {"128M", 128u << 20}, {"128Mi", 128u << 20},
      {"500mb", 500'000'000}, {"64k", 65536},         {"64K", 65536},       {"64kb", 64000},
      {"64KiB", 65536},       {"2T", 2ull << 40},     {"1500000", 1500000}, {"1500000 B", 1500000},
      {" 64K ", 65536},       {"1e9", 1'000'000'000}};
  for (const auto& [text, size] : sizes) {
    EXPECT_EQ(with(std::string("--memory-limit=") + text).process.memory_limit, size) << text;
  }
  for (const auto* text : {"8X", "G", "8GG", "8Gb8", "8 G B i", "-1G", ""}) {
    EXPECT_THAT(refusal({"train", "--memory-limit", text}),
                HasSubstr("such as 1500000, 64K, 500MB or 8GiB"))
        << text;
  }
  EXPECT_EQ(with("--bucket-mib=25").training.bucket_mib, 25);
  EXPECT_EQ(with("--bucket-mib=25MiB").training.bucket_mib, 25);
  EXPECT_EQ(with("--bucket-mib=512k").training.bucket_mib, 0.5);
  EXPECT_EQ(parse_options({"allreduce", "--max-bytes=64K"}, {}).sweep.max_bytes, 65536u);
  for (const auto* text : {"10min", "10 MIN", "10m", "600s", "600 seconds"}) {
    EXPECT_EQ(with(std::string("--checkpoint-every=") + text).training.checkpoint.seconds, 600)
        << text;
  }
  EXPECT_EQ(with("--checkpoint-every=200-steps").training.checkpoint.steps, 200);
  EXPECT_EQ(with("--checkpoint-every=200-steps").training.checkpoint.seconds, 0);
}

TEST(Options, ContradictionsAreRefusedNamingTheOptions) {
  const auto contradiction = [](const std::vector<std::string>& arguments, int ranks) {
    const Options parsed = parse_options(arguments, {});
    return expect_error(core::ExitStatus::usage, {}, [&] { resolve(parsed, ranks); });
  };
  const std::string batch = "--batch-per-rank=8";
  EXPECT_THAT(contradiction({"train", batch, "--trace=t.json"}, 1), HasSubstr("--profile STEPS"));
  EXPECT_THAT(contradiction({"train", batch, "--micro-batches=2", "--profile=1"}, 1),
              HasSubstr("--profile measures the operations of one plan"));
  EXPECT_EQ(contradiction({"plan", batch, "--pipeline-stages=2"}, 2),
            "lockstep plan does not describe the stages of a pipeline; use lockstep train "
            "--dry-run with the same options");
  EXPECT_THAT(contradiction({"allreduce", "--min-bytes=8K", "--max-bytes=4K"}, 1),
              HasSubstr("--min-bytes"));
  EXPECT_THAT(contradiction({"layers"}, 2), HasSubstr("measures one device, but 2 ranks"));
  EXPECT_THAT(contradiction({"stack", "--layer=conv:3-8,k3@1x8x8"}, 1), HasSubstr("conv:3-8"));
  const auto resolved = [](const std::vector<std::string>& arguments) {
    return resolve(parse_options(arguments, {}), 1);
  };
  EXPECT_EQ(resolved({"ladder", "--steps=3", "--epochs=4"}).training.steps, 3);
  EXPECT_NO_THROW(resolved({"plan", batch, "--micro-batches=2"}));
  EXPECT_NE(resolved({"layers"}).layers.list, resolved({"stack"}).layers.list);
  EXPECT_TRUE(resolved({"train", batch, "--profile=1"}).training.times_operations);
  EXPECT_TRUE(resolved({"train", batch, "--dry-run"}).training.checkpoint.is_read_only);
}

TEST(Options, SizesBelowOneAreRefused) {
  for (const auto* option : {"--batch-per-rank", "--global-batch", "--epochs", "--steps"}) {
    EXPECT_THAT(refusal({"train", option, "0"}), HasSubstr("must be from 1 to")) << option;
  }
  EXPECT_THAT(refusal({"train"}, {"LOCKSTEP_EPOCHS=0"}), HasSubstr("must be from 1 to"));
}

// Products of values that the program multiplies must be representable, so no number is unbounded.
TEST(OptionTable, EveryNumberHasBoundsThatItsMessageStates) {
  const std::set<std::string_view> numeric{"integer", "number", "bytes"};
  for (const Option& option : options()) {
    ASSERT_EQ(numeric.contains(option.value.type), option.value.bounds.has_value()) << option.name;
    if (!option.value.bounds) continue;
    const Range& range = *option.value.bounds;
    EXPECT_TRUE(std::isfinite(range.least) && std::isfinite(range.most)) << option.name;
    EXPECT_THAT(option.value.range, HasSubstr(range.describe())) << option.name;
    Options config;
    const auto parse = [&](const std::string& text) {
      option.value.parse(config, option.name, text);
    };
    if (range.includes_most) {
      EXPECT_NO_THROW(parse(fmt::format("{:.0f}", range.most)));
    }
    for (const std::string& text :
         {fmt::format("{:.0f}", std::max(range.most + 1, std::nextafter(range.most, 1e300))),
          std::string("nan"), std::string("inf"), std::string("-inf"), std::string("1e308"),
          std::string("1e999"), std::string("-1"),
          fmt::format("{:.0f}", std::max(range.most * 2, 0x1p64))}) {
      SCOPED_TRACE(fmt::format("--{} {}", option.name, text));
      expect_error(core::ExitStatus::usage, {range.describe()}, [&] { parse(text); });
    }
  }
}

TEST(Options, ValuesOutOfRangeAreRefusedNamingTheRange) {
  const std::map<std::string, std::string> wrong{
      {"--momentum=1", "--momentum 1: must be from 0 to below 1"},
      {"--momentum=-0.1", "must be from 0 to below 1"},
      {"--label-smoothing=1", "--label-smoothing 1: must be from 0 to below 1"},
      {"--watchdog=9300000000", "--watchdog 9300000000: must be from 0 to 1000000000"},
      {"--checkpoint-every=1e308h", "at most 1000000000 s"},
      {"--checkpoint-every=1e13-steps", "at most 1000000000000"},
      {"--watchdog=-1", "--watchdog -1: must be from 0 to 1000000000"},
      {"--bucket-mib=1e+300", "--bucket-mib 1e+300: must be from 3.8147e-06 to 1048576"},
      {"--bucket-mib=0", "--bucket-mib 0: must be from"},
      {"--lr=-1", "--lr -1: must be from 0 to 1e+30"},
      {"--lr-reference-batch=0", "--lr-reference-batch 0: must be from 1 to 1000000"},
      {"--keep=0", "--keep 0: must be from 1 to 1000000"},
      {"--evaluate-every=-2", "must be from 0 to 1000000, or never"},
  };
  for (const auto& [argument, message] : wrong) {
    EXPECT_THAT(refusal({"train", argument}), HasSubstr(message));
  }
  EXPECT_THAT(refusal({"allreduce", "--min-bytes=3"}), HasSubstr("must be from 4 to"));
}

// An option that the command does not use is an error on the command line. It is accepted in the
// environment and in a config file, because all commands share them.
TEST(Options, CommandsRefuseOptionsThatTheyDoNotUse) {
  EXPECT_THAT(refusal({"ladder", "--batch-per-rank", "64"}),
              AllOf(HasSubstr("'lockstep ladder' does not use --batch-per-rank"),
                    HasSubstr("lockstep ladder --help-all")));
  EXPECT_THAT(refusal({"train", "--ladder-start=8"}), HasSubstr("--ladder-start"));
  EXPECT_THAT(refusal({"evaluate", "--output", "x.h5"}), HasSubstr("--output"));
  EXPECT_THAT(refusal({"info", "--lr", "1"}), HasSubstr("--lr"));
  EXPECT_THAT(refusal({"allreduce", "--nesterov"}), HasSubstr("--nesterov"));
  EXPECT_NO_THROW(parse_options({"ladder"}, {"LOCKSTEP_BATCH_PER_RANK=64"}));
  const ConfigFile file("batch-per-rank = 64\n");
  EXPECT_NO_THROW(parse_options({"ladder", "--config", file.path()}, {}));
}

TEST(Options, PlanAcceptsEveryOptionOfTrain) {
  for (const Option& option : options()) {
    if (is_used("train", option)) {
      EXPECT_TRUE(is_used("plan", option)) << option.name;
    }
  }
}

TEST(OptionTable, NamesAreUniqueAndRowsAreComplete) {
  std::set<std::string_view> names;
  for (const Option& option : options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name << " is there twice";
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_TRUE(option.value.parse) << option.name;
    EXPECT_NE(option.commands, 0u) << option.name;
    EXPECT_EQ(option.value_name.empty(), option.value.is_flag()) << option.name;
    if (option.alternative.empty()) continue;
    const Option* alternative = find_option(option.alternative);
    ASSERT_NE(alternative, nullptr) << option.name;
    EXPECT_EQ(alternative->alternative, option.name);
  }
}

TEST(OptionTable, EveryNameOfAValueIsAccepted) {
  for (const Option& option : options()) {
    std::set<std::string> all;
    for (const ValueName& value : option.value.names) {
      Options named;
      option.value.parse(named, option.name, value.name);
      EXPECT_EQ(option.value.print(named), value.name) << option.name;
      EXPECT_TRUE(all.insert(value.name).second) << option.name << " " << value.name;
    }
  }
}

TEST(OptionTable, EntriesNameEveryOptionOnceInTheNotationOfTheCommandLine) {
  Options config;
  config.training.checkpoint.seconds = 0;
  config.training.checkpoint.steps = 50;
  config.training.evaluate_every = -1;
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : entries(config)) {
    EXPECT_TRUE(found.emplace(name, value).second) << name << " is there twice";
  }
  EXPECT_EQ(found.size(), options().size());  // "command" is added and "config" is not recorded
  EXPECT_FALSE(found.contains("config"));
  EXPECT_EQ(found.at("command"), "train");
  EXPECT_EQ(found.at("device"), "auto");
  EXPECT_EQ(found.at("loss-scale"), "dynamic");
  EXPECT_EQ(found.at("checkpoint-every"), "50-steps");
  EXPECT_EQ(found.at("evaluate-every"), "never");
  EXPECT_EQ(found.at("nesterov"), "false");
  EXPECT_EQ(found.at("label-smoothing"), "0");
  EXPECT_EQ(found.at("weight-decay"), "auto");  // `resolve` replaces it
}

TEST(OptionTable, PathsAndThreadCountsMayDifferBetweenRanks) {
  std::set<std::string> differing;
  for (const auto& [name, value] : entries({})) differing.insert(name);
  for (const auto& [name, value] : shared_entries({})) differing.erase(name);
  EXPECT_THAT(differing,
              ::testing::UnorderedElementsAre(
                  "data", "init-from", "resume", "checkpoint-dir", "output", "json", "quiet",
                  "threads", "loader-threads", "engine-log", "trace", "trust-checkpoint-dir"));
}

TEST(OptionReference, DescribesValuesRangesAndDefaults) {
  const std::string page = options_page();
  EXPECT_THAT(page, HasSubstr("\n## Optimiser\n"));
  EXPECT_THAT(page, HasSubstr("|`--conv-algorithm NAME`|auto|"));
  EXPECT_THAT(page, HasSubstr("direct (oneDNN)"));
  EXPECT_THAT(page, HasSubstr("|`--nesterov`|off|"));
  const auto table = nlohmann::json::parse(options_json());
  ASSERT_EQ(table.size(), options().size());
  for (const auto& row : table) {
    if (row["name"] == "momentum") {
      EXPECT_EQ(row["range"], "from 0 to below 1, or auto");
    }
    if (row["name"] != "bucket-mib") continue;
    EXPECT_EQ(row["default"], "6 on CPUs, 16 on GPUs");
    EXPECT_EQ(row["effect"], "both");
    EXPECT_EQ(row["effect_requires"], "several ranks");
    EXPECT_EQ(row["across_ranks"], "equal");
  }
}

bool lists(const std::string& help, const Option& option) {
  return help.find(fmt::format("--{} ", option.name)) != std::string::npos;
}

TEST(Help, AllListsTheOptionsThatTheCommandUses) {
  for (const std::string& command : command_names()) {
    const std::string help = requested_information({command, "--help-all"}).value();
    for (const Option& option : options()) {
      EXPECT_EQ(lists(help, option), is_used(command, option)) << command << " --" << option.name;
    }
  }
  EXPECT_THAT(requested_information({"train", "--help-all"}).value(),
              AllOf(HasSubstr("[128]"), HasSubstr("Optimiser:"), HasSubstr("Exit status")));
}

// The help without --help-all fits on a screen, and lists every option that its own text names.
TEST(Help, ListsTheCommonOptionsOfTheCommand) {
  for (const std::string& command : command_names()) {
    const std::string help = requested_information({command, "--help"}).value();
    const std::string description = help.substr(0, help.find(":\n  -"));
    const auto common = [&](const Option& option) { return is_common(command, option); };
    EXPECT_LE(std::ranges::count_if(options(), common), 15) << command;
    EXPECT_THAT(help, EndsWith(fmt::format("lockstep {} --help-all lists all {} options.\n",
                                           command, option_names(command).size())));
    for (const Option& option : options()) {
      if (!is_used(command, option) || !lists(description, option)) continue;
      EXPECT_TRUE(common(option)) << command << " --" << option.name;
    }
  }
}

TEST(Help, IsPrintedInsteadOfRunningACommand) {
  EXPECT_FALSE(requested_information({"train", "--lr", "1"}));
  EXPECT_THAT(requested_information({}).value(), HasSubstr("lockstep train"));
  EXPECT_THAT(requested_information({"--help"}).value(), HasSubstr("lockstep ladder"));
  EXPECT_THAT(requested_information({"--version"}).value(), HasSubstr("lockstep"));
  EXPECT_THAT(requested_information({"train", "--help"}).value(),
              AllOf(HasSubstr("Optimiser:"), HasSubstr("mpirun -n 2")));
}

// The shell does not expand them in --NAME=~/x, in quotes, in files and in variables.
TEST(Options, PathsAreExpanded) {
  ::setenv("HOME", "/home/user", 1);
  ::setenv("LOCKSTEP_TEST_PLACE", "/place", 1);
  ::unsetenv("LOCKSTEP_TEST_NOTHING");
  for (const Option& option : options()) {
    if (option.value.type != "path" || !option.is_recorded()) continue;
    const auto parsed = [&](const std::string& text) {
      Options config;
      option.value.parse(config, option.name, text);
      return option.value.print(config);
    };
    EXPECT_EQ(parsed("~/x"), "/home/user/x") << option.name;
    EXPECT_EQ(parsed("~"), "/home/user");
    EXPECT_EQ(parsed(" /a b/c \n"), "/a b/c");
    EXPECT_EQ(parsed("file:///a/b"), "/a/b");
    EXPECT_EQ(parsed("$HOME/x"), "/home/user/x");
    EXPECT_EQ(parsed("${LOCKSTEP_TEST_PLACE}/x"), "/place/x");
    EXPECT_EQ(parsed("a~/$b/c:d"), "a~/$b/c:d");
    for (const char* wrong : {"~other/x", "$LOCKSTEP_TEST_NOTHING/x", "https://host/x"}) {
      EXPECT_THROW(parsed(wrong), core::Error) << option.name << wrong;
    }
  }
  EXPECT_EQ(parse_options({"train", "--data=cifar10:~/c"}, {}).training.data.source,
            "cifar10:/home/user/c");
  EXPECT_EQ(parse_options({"train"}, {"LOCKSTEP_OUTPUT=~/r.h5"}).output.run_file,
            "/home/user/r.h5");
  EXPECT_THAT(refusal({"train", "--config", "~/no.ini"}), HasSubstr("/home/user/no.ini"));
  EXPECT_THAT(refusal({"train", "--data", "https://host/x"}), HasSubstr("is a URL"));
}

TEST(OptionTable, FilesAndFoldersArePaths) {
  for (const Option& option : options()) {
    const bool is_place = option.value_name == "FILE" || option.value_name == "DIR";
    EXPECT_TRUE(!is_place || option.value.type == "path") << option.name;
  }
}

TEST(Suggestion, KnowsTheOptionsOfOtherPrograms) {
  const std::map<std::string, std::string> meant{
      {"--batch-size=2", "'batch-per-rank' or 'global-batch'"},
      {"-b=2", "'batch-per-rank'"},
      {"--bs=2", "'batch-per-rank'"},
      {"--num_workers=2", "'loader-threads'"},
      {"--workers=2", "'loader-threads'"},
      {"--data-dir=x", "'data'"},
      {"--data-path=x", "'data'"},
      {"--wd=1", "'weight-decay'"},
      {"--arch=x", "'model'"},
      {"--world-size=2", "mpirun -n N"},
      {"--gpus=2", "srun -n N"},
      {"--learning-rate=1", "'lr'"}};
  for (const auto& [argument, text] : meant) {
    EXPECT_THAT(refusal({"train", argument}), HasSubstr(text)) << argument;
  }
  EXPECT_THAT(refusal({"ladder", "--batch-size=2"}), HasSubstr("did you mean 'ladder-start'?"));
  EXPECT_THAT(refusal({"train", "--resume"}), HasSubstr("auto: the newest valid checkpoint"));
}

TEST(Suggestion, MeasuresEditDistance) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(suggestion("zzzzzz", {"epochs", "steps"}), "");
}

TEST(Suggestion, SuggestsForPrefixesAndSynonyms) {
  EXPECT_THAT(refusal({"train", "--model", "resnet18"}),
              HasSubstr("did you mean 'resnet18-cifar'"));
  EXPECT_THAT(refusal({"train", "--device", "gpu"}), HasSubstr("did you mean 'cuda'"));
  EXPECT_THAT(refusal({"train", "--precision", "bfloat16"}), HasSubstr("did you mean 'bf16'"));
  EXPECT_EQ(suggestion("gpu", {"red", "green"}), "");
}

}  // namespace
}  // namespace lockstep::app
