// SPDX-License-Identifier: BSD-3-Clause
// Tests over the whole option table that a resume with another value of an option is reported if,
// and only if, the option affects results or times.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/train/trainer.hpp"
#include "options/option_table.hpp"
#include "train/small.hpp"

namespace lockstep::app {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Returns a value that `option` accepts, other than that of `values`.
std::string other_value(const Option& option, const Options& values) {
  const std::string present = option.value.print(values);
  if (option.value.is_flag()) return present == "true" ? "false" : "true";
  for (const ValueName& value : option.value.names)
    if (value.name != present) return value.name;
  for (const std::string text : {"1", "2", "0.5", "7-steps", "nan:0:1", "4K", "other"}) {
    Options changed = values;
    try {
      option.value.parse(changed, option.name, text);
    } catch (const core::Error&) {
      continue;
    }
    if (option.value.print(changed) != present) return text;
  }
  ADD_FAILURE() << "no other value of --" << option.name;
  return present;
}

/// Runs that resume from a checkpoint of a small training.
class ResumedOptions : public ::testing::Test {
 protected:
  ResumedOptions() : world_(comm::make_self_communicator()), directory_(*world_) {
    values_.training.checkpoint.directory = directory_.path();
    values_.training.checkpoint.resume = "auto";
    start(experiment_entries(values_));
  }

  /// Trains and records `entries`; returns the warnings.
  std::string start(const train::Entries& entries) {
    train::testing::Witness witness;
    ::testing::internal::CaptureStderr();
    train::Trainer trainer({.config = values_.training,
                            .graph = graph_,
                            .data = data_,
                            .backend = *backend_,
                            .world = *world_,
                            .data_parallel = *world_,
                            .options = entries},
                           witness);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), logged(trainer.description().warnings));
    trainer.run();
    return fmt::format("{}", fmt::join(trainer.description().warnings, "\n"));
  }
  static std::string logged(const std::vector<std::string>& warnings) {
    std::string text;
    for (const std::string& warning : warnings) text += "lockstep: warning: " + warning + "\n";
    return text;
  }

  std::unique_ptr<comm::Communicator> world_;
  train::testing::SharedDirectory directory_;
  std::unique_ptr<backend::Backend> backend_ =
      backend::make_backend({.kind = backend::DeviceKind::cpu, .threads = 1});
  graph::Graph graph_ = train::testing::small_graph(train::testing::Norm::without);
  data::TrainingData data_ = train::testing::small_data();
  Options values_ = [] {
    Options values;
    values.training = train::testing::small_config(1);
    return values;
  }();
};

TEST_F(ResumedOptions, AreReportedIfTheyAffectResultsOrTimes) {
  EXPECT_THAT(start(experiment_entries(values_)), IsEmpty());
  for (const Option& option : options()) {
    if (!option.is_recorded() || !is_used("train", option)) continue;
    Options recorded = values_;
    option.value.parse(recorded, option.name, other_value(option, values_));
    const std::string change =
        fmt::format(" {} from '{}' to '{}'", option.name, option.value.print(values_),
                    option.value.print(recorded));
    const std::string warning = start(experiment_entries(recorded));
    if (option.effect.affects != Affects::neither) {
      EXPECT_THAT(warning, HasSubstr(change));
    } else {
      EXPECT_THAT(warning, IsEmpty()) << option.name;
    }
  }
}

TEST_F(ResumedOptions, AnotherBuildIsReported) {
  train::Entries entries = experiment_entries(values_);
  auto& [name, build] = entries.front();
  const std::string present = build;
  build = "lockstep of tomorrow";
  EXPECT_THAT(start(entries),
              HasSubstr(fmt::format(" {} from '{}' to '{}';", name, present, build)));
  EXPECT_EQ(name, "build");
}

}  // namespace
}  // namespace lockstep::app
