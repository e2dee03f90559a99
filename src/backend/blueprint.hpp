#pragma once

#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "feature_map.hpp"
#include "fusion.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/backend/memory_planner.hpp"
#include "operation.hpp"

namespace lockstep::backend {

/// What a device adds to a blueprint: how its feature maps look, and the operations on them.
class OperationFactory {
 public:
  virtual ~OperationFactory() = default;

  virtual const graph::Graph& graph() const = 0;
  virtual const PlanOptions& options() const = 0;

  /// Called once, first: a device may compute across the borders of steps.
  virtual void look_at(const std::vector<Step>&) {}

  /// Whether a step's output is the memory of its first input, because who reads it makes of that
  /// what the step would.
  virtual bool passes_input_on(const Step&) const { return false; }

  /// The output of a step; `first_input` is null for the images.
  virtual FeatureMap map_of(const Step& step, const FeatureMap* first_input) const = 0;

  /// Called once per step but the images, in forward order. The maps have no memory yet.
  virtual std::unique_ptr<Operation> make(const Step& step, Ports ports) = 0;

  /// to += from, where an operation cannot add up its output's gradients itself.
  virtual void add_into(const FeatureMap& from, const FeatureMap& to) = 0;
};

/// A plan without memory: the operations of a graph, the maps between them, and where those will
/// stand. It says what a plan takes before anything is taken; `bind` gives it memory, and then it
/// runs. What all devices' plans have in common.
class Blueprint {
 public:
  /// Throws `Error` (usage) where training would ask a batch norm for the variance of one value.
  explicit Blueprint(OperationFactory& factory);
  Blueprint(const Blueprint&) = delete;
  Blueprint& operator=(const Blueprint&) = delete;

  std::size_t arena_bytes() const { return arena_bytes_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  std::vector<OperationChoice> choices() const;

  const FeatureMap& images() const { return outputs_.front()->map; }
  const FeatureMap& logits() const;

  /// Memory of `arena_bytes` and `scratch_bytes`, aligned to 64 bytes, which outlives this.
  void bind(std::byte* arena, std::byte* scratch, ModelState& state);

  void forward();
  /// Tells the listener after each operation how much of the flat gradients is final.
  void backward(core::GradientListener& listener);

 private:
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
  bool training() const { return factory_.options().mode == Mode::training; }
  Slot* new_slot(const FeatureMap& map, int time);
  void make_maps();
  void make_operations();
  void place_slots();
  void find_filled();
  void tell_ended(std::size_t step, std::string_view phase) const;

  OperationFactory& factory_;
  std::vector<Step> steps_;
  std::deque<Slot> slots_;                           ///< addresses stay
  std::vector<Slot*> outputs_;                       ///< by step
  std::vector<Slot*> kept_;                          ///< by step, null where nothing is kept
  std::vector<std::vector<Slot*>> gradients_;        ///< by step: of its output, one per consumer
  std::vector<std::vector<Slot*>> input_gradients_;  ///< by step: null where nobody wants it
  std::vector<std::unique_ptr<Operation>> operations_;  ///< by step, null for the images
  std::vector<std::size_t> filled_after_;  ///< by step: final gradients after its backward
  std::size_t arena_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace lockstep::backend
