// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "../cells/kernels.hpp"
#include "../context.hpp"
#include "../convolution_direction.hpp"

namespace lockstep::backend::cpu {

/// How `ConvolutionAlgorithm::automatic` is resolved.
enum class ChoiceRule {
  /// By timing. The choice can differ between runs, and with it the rounding of results.
  fastest,
  /// The first that supports the convolution, in the order of `ConvolutionChooser::algorithms`.
  fixed,
};

/// The kernels of `cells` for the instructions of a processor; null if it lacks them.
struct CellKernels {
  std::unique_ptr<const cells::Kernels> amx, avx512;
};
/// Returns the kernels for the instructions that this processor has.
CellKernels make_cell_kernels();

/// Runs a direction once and returns the time that this takes, in seconds. The maps have the number
/// of images that is timed.
using TimedRun =
    std::function<double(ConvolutionAlgorithm, const ConvolutionProblem&, ConvolutionDirection&)>;
double run_and_time(ConvolutionAlgorithm, const ConvolutionProblem&,
                    ConvolutionDirection& direction);

/// Creates the directions of convolutions with the algorithm that the plan's options select; if
/// that is `automatic`, the algorithm is chosen by `rule`. `ChoiceRule::fastest` times each shape
/// once, on no more images than the kernels need for full speed, and caches the result; a plan with
/// a larger batch gets the same algorithm.
class ConvolutionChooser {
 public:
  explicit ConvolutionChooser(ChoiceRule rule, CellKernels kernels = make_cell_kernels(),
                              TimedRun timed_run = run_and_time);

  /// Returns null if no algorithm has a kernel for this direction. The chooser must outlive the
  /// direction.
  std::unique_ptr<ConvolutionDirection> make(const Context& context,
                                             const ConvolutionProblem& problem);

  /// Returns true if `ConvolutionAlgorithm::automatic` is resolved by timing.
  bool is_timed(const PlanOptions& options) const {
    return options.convolution_algorithm == ConvolutionAlgorithm::automatic &&
           rule_ == ChoiceRule::fastest;
  }
  /// Returns true if the convolutions of a plan may use the kernels of `cells`.
  bool may_use_cells(const PlanOptions& options) const;
  /// Returns the time of a direction with its fastest algorithm, in seconds per image; infinity if
  /// there is none. `is_timed` must be true.
  double seconds_per_image(const Context& context, const ConvolutionProblem& problem) {
    return fastest(context, problem).seconds_per_image;
  }

 private:
  /// All properties on which the speed of the algorithms depends.
  struct Key {
    Direction direction;
    core::DataType type;
    MapLayout source, destination;
    int threads;
    ConvolutionSizes sizes;
    auto operator<=>(const Key&) const = default;
  };

  struct Timing {
    ConvolutionAlgorithm algorithm;
    double seconds_per_image;
  };

  Timing fastest(const Context& context, const ConvolutionProblem& problem);
  /// Times the algorithms on maps of the given shapes, whose memory is not used.
  Timing measure(const Context& context, const ConvolutionProblem& shapes) const;

  /// Returns the algorithms that the options allow. If they name one, the others are for
  /// convolutions that it does not support. Throws `Error` if this processor lacks its
  /// instructions.
  std::vector<ConvolutionAlgorithm> algorithms(const PlanOptions& options) const;
  /// Returns those algorithms that support the direction.
  std::vector<ConvolutionAlgorithm> candidates(const Context& context,
                                               const ConvolutionProblem& problem) const;
  /// Returns the kernels of an algorithm that computes with cells; otherwise null.
  const cells::Kernels* kernels_of(ConvolutionAlgorithm algorithm) const;
  /// Returns null if the algorithm has no kernel. Only `direct` need not support the direction.
  std::unique_ptr<ConvolutionDirection> make_by(ConvolutionAlgorithm algorithm,
                                                const Context& context,
                                                const ConvolutionProblem& problem) const;

  ChoiceRule rule_;
  CellKernels kernels_;
  std::unique_ptr<const cells::Kernels> emulated_;  // of AMX
  TimedRun timed_run_;
  std::map<Key, Timing> fastest_;
};

}  // namespace lockstep::backend::cpu
