// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "event_list.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/train/trainer.hpp"
#include "small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;

using Names = std::vector<std::string>;

/// Appends the name of each event, after a prefix, to a list.
class EventNames final : public TrainingListener {
 public:
  explicit EventNames(Names& names, std::string prefix = {})
      : names_(names), prefix_(std::move(prefix)) {}

  void run_begin(double) override { add("run_begin"); }
  void epoch_begin() override { add("epoch_begin"); }
  void step_end(const CompletedStep& step, const StepResult&) override {
    add("step_end " + std::to_string(step.step));
  }
  void last_step_end(record::EpochRecord& epoch) override {
    EXPECT_TRUE(epoch.loss.empty());
    add("last_step_end " + std::to_string(epoch.epoch));
  }
  void evaluation_begin() override { add("evaluation_begin"); }
  void evaluation_end(const CompletedEvaluation& completed) override {
    EXPECT_FALSE(completed.is_of_resumed_state);
    evaluation = completed;
    add("evaluation_end " + std::to_string(completed.epoch));
  }
  void epoch_end(record::EpochRecord& epoch) override {
    EXPECT_EQ(epoch.test_loss, evaluation.loss);
    EXPECT_EQ(epoch.test_accuracy, evaluation.accuracy);
    EXPECT_EQ(epoch.evaluation_seconds, evaluation.seconds);
    add("epoch_end " + std::to_string(epoch.epoch));
  }
  void run_end(RunSummary& summary) override {
    EXPECT_EQ(summary.last_test_accuracy, evaluation.accuracy);
    EXPECT_GT(summary.peak_memory_bytes, 0u);  // the measurements were added before
    add("run_end");
  }

  CompletedEvaluation evaluation;

 private:
  void add(const std::string& name) { names_.push_back(prefix_ + name); }

  Names& names_;
  std::string prefix_;
};

TEST(Events, AreInTheDocumentedOrderOnRank0) {
  int argc = 0;
  char** argv = nullptr;
  const comm::MpiSession session(argc, argv);
  const auto world = comm::make_communicator(session);
  const auto backend = backend::make_backend(backend::DeviceKind::cpu, 1);
  const graph::Graph graph = small_graph(Norm::without);
  const data::TrainingData data = small_data();
  Names names;
  EventNames listener(names);
  Trainer({small_config(world->size()), graph, data, *backend, *world, *world}, listener).run();
  if (world->rank() != 0) {
    EXPECT_THAT(names, ::testing::IsEmpty());
    return;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("run_begin", "epoch_begin", "step_end 1", "step_end 2",
                                            "step_end 3", "step_end 4", "last_step_end 1",
                                            "evaluation_begin", "evaluation_end 1", "epoch_end 1",
                                            "epoch_begin", "step_end 5", "step_end 6", "step_end 7",
                                            "step_end 8", "last_step_end 2", "evaluation_begin",
                                            "evaluation_end 2", "epoch_end 2", "run_end"));
}

TEST(EventList, NotifiesInTheOrderOfAddingAndOfTheEndOfStepsInReverseOrder) {
  Names names;
  EventNames outer(names, "outer ");
  EventList events;
  events.add(outer);
  events.add(std::make_unique<EventNames>(names, "inner "));
  record::EpochRecord epoch;
  epoch.epoch = 1;
  events.epoch_begin();
  events.step_end({.step = 7}, {});
  events.last_step_end(epoch);
  EXPECT_THAT(names, ::testing::ElementsAre("outer epoch_begin", "inner epoch_begin",
                                            "outer step_end 7", "inner step_end 7",
                                            "inner last_step_end 1", "outer last_step_end 1"));
}

}  // namespace
}  // namespace lockstep::train
