#pragma once

#include <cstddef>
#include <span>

namespace lockstep::core {

/// How a plan tells the world outside, of which it knows nothing, how far its backward pass is. The
/// trainer ties it to the gradient reducer.
class GradientListener {
 public:
  virtual ~GradientListener() = default;

  /// The first `elements` values of the flat gradient buffer are final. Called after every
  /// operation of the backward pass, with a number that never falls: also a chance to progress
  /// communication.
  virtual void filled_to(std::size_t elements) = 0;
};

/// For batch norm over all replicas: adds up `values` over the replicas, in place, and says how
/// many replicas there are. Collective: every replica calls it with the same length, in the same
/// order.
class StatisticsSum {
 public:
  virtual ~StatisticsSum() = default;
  virtual int replicas() const = 0;
  virtual void sum(std::span<float> values) = 0;
};

}  // namespace lockstep::core
