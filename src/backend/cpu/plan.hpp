#pragma once

#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "fusion.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/backend/memory_planner.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

/// A plan without memory: the operations of a graph, the maps between them, and where those will
/// stand. It says what a plan takes before anything is taken.
class Blueprint {
 public:
  Blueprint(const graph::Graph& graph, const PlanOptions& options, int threads,
            ConvolutionChooser& chooser);
  Blueprint(const Blueprint&) = delete;
  Blueprint& operator=(const Blueprint&) = delete;

  MemoryUse memory() const;
  std::vector<OperationChoice> choices() const;

 private:
  friend class CpuPlan;

  /// A piece of the arena: a feature map, its gradient, or what an operation keeps.
  struct Slot {
    FeatureMap map;
    std::size_t bytes = 0;
    int first = 0;  ///< in the schedule: forward steps, then backward steps
    int last = 0;
    std::size_t offset = 0;
  };

  int forward_time(int step) const { return step; }
  int backward_time(int step) const { return 2 * static_cast<int>(steps_.size()) - 1 - step; }
  bool training() const { return context_.options.mode == Mode::training; }
  FeatureMap map_of(const Step& step, const PreferredLayouts& layouts) const;
  Slot* new_slot(const FeatureMap& map, int time);
  std::unique_ptr<Operation> make_operation(const Step& step, Ports ports);
  void make_operations();
  void place_slots();

  graph::Graph graph_;
  Context context_;
  std::vector<Step> steps_;
  std::deque<Slot> slots_;                     ///< addresses stay
  std::vector<Slot*> outputs_;                 ///< by step
  std::vector<Slot*> kept_;                    ///< by step, null where nothing is kept
  std::vector<std::vector<Slot*>> gradients_;  ///< by step: of its output, one per consumer
  std::vector<std::unique_ptr<Operation>> operations_;  ///< by step, null for the input
  Loss* loss_ = nullptr;
  std::size_t arena_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
};

/// A blueprint with memory.
class CpuPlan : public Plan {
 public:
  CpuPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options, int threads,
          ConvolutionChooser& chooser);

  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override;
  void forward() override;
  BatchResult result() const override { return blueprint_.loss_->result(); }
  std::span<const float> logits() const override;
  void backward(core::GradientListener& listener) override;
  MemoryUse memory() const override { return blueprint_.memory(); }
  std::vector<OperationChoice> choices() const override { return blueprint_.choices(); }

 private:
  void tell_ended(std::size_t step, std::string_view phase) const;

  Blueprint blueprint_;
  ModelState& state_;
  core::Buffer arena_;
  core::Buffer scratch_;
  ImageNormaliser normaliser_;
  std::vector<std::size_t>
      filled_after_;  ///< by step: final elements of the gradient buffer after its backward
};

}  // namespace lockstep::backend::cpu
