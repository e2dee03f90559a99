// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <ranges>
#include <utility>
#include <vector>

#include "lockstep/train/events.hpp"

namespace lockstep::train {

/// The listeners of a run, which are notified in the order in which they were added, and of
/// `last_step_end` in reverse order.
class EventList final : public TrainingListener {
 public:
  /// `listener` must outlive the list.
  void add(TrainingListener& listener) { all_.push_back(&listener); }
  void add(std::unique_ptr<TrainingListener> listener) {
    all_.push_back(owned_.emplace_back(std::move(listener)).get());
  }

  void run_begin(double origin) override {
    for (TrainingListener* listener : all_) listener->run_begin(origin);
  }
  void epoch_begin() override {
    for (TrainingListener* listener : all_) listener->epoch_begin();
  }
  void step_end(const CompletedStep& step, const StepResult& result) override {
    for (TrainingListener* listener : all_) listener->step_end(step, result);
  }
  void last_step_end(record::EpochRecord& epoch) override {
    for (TrainingListener* listener : std::views::reverse(all_)) listener->last_step_end(epoch);
  }
  void evaluation_begin() override {
    for (TrainingListener* listener : all_) listener->evaluation_begin();
  }
  void evaluation_end(const CompletedEvaluation& evaluation) override {
    for (TrainingListener* listener : all_) listener->evaluation_end(evaluation);
  }
  void epoch_end(record::EpochRecord& epoch) override {
    for (TrainingListener* listener : all_) listener->epoch_end(epoch);
  }
  void run_end(RunSummary& summary) override {
    for (TrainingListener* listener : all_) listener->run_end(summary);
  }

 private:
  std::vector<std::unique_ptr<TrainingListener>> owned_;
  std::vector<TrainingListener*> all_;
};

}  // namespace lockstep::train
