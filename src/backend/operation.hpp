#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "feature_map.hpp"
#include "lockstep/backend/backend.hpp"

namespace lockstep::backend {

/// What an operation reads and writes. Shapes, types and layouts are known when an operation is
/// made; the maps' memory is there when it is bound.
struct Ports {
  std::vector<const FeatureMap*> inputs;
  const FeatureMap* output = nullptr;
  std::vector<const FeatureMap*> output_gradients;  ///< one per consumer: their sum is the gradient
  std::vector<const FeatureMap*> input_gradients;   ///< one per input; null where nobody wants it
};

/// Which feature maps the backward pass of an operation reads again.
struct BackwardNeeds {
  bool inputs = false;
  bool output = false;
};

/// What an operation is given when memory has been taken.
struct Binding {
  ModelState* state = nullptr;
  std::byte* scratch = nullptr;  ///< shared by all operations: holds nothing between two of them
  std::byte* kept = nullptr;     ///< the operation's own, from its forward to its backward pass
};

/// One step of a compiled plan. Made from shapes alone, so that a plan can be sized without taking
/// memory; `bind` then gives it memory, once.
class Operation {
 public:
  explicit Operation(Ports ports) : ports_(std::move(ports)) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  virtual std::size_t scratch_bytes() const { return 0; }
  virtual std::size_t kept_bytes() const { return 0; }
  virtual BackwardNeeds backward_needs() const { return {}; }
  virtual std::size_t output_gradients_taken() const { return 1; }  ///< it adds up so many itself
  const std::vector<const FeatureMap*>& output_gradients() const { return ports_.output_gradients; }
  virtual void bind(const Binding& binding) = 0;
  virtual void forward() = 0;
  virtual void backward() = 0;
  virtual std::vector<OperationChoice> choices() const { return {}; }

 protected:
  const Ports& ports() const { return ports_; }

 private:
  Ports ports_;
};

}  // namespace lockstep::backend
