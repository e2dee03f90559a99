// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/comm/gradient_transport.hpp"
#include "replica.hpp"
#include "timing/step_clock.hpp"

namespace lockstep::train {

/// Computes the parameters of all replicas from the reduced gradients of a step.
class ParameterUpdate {
 public:
  virtual ~ParameterUpdate() = default;

  /// Updates `count` parameters from index `first` on, whose gradients are reduced; see
  /// `backend::Plan::update`.
  virtual void update(std::size_t first, std::size_t count) = 0;
  /// Completes the step: all replicas then have the new parameters. Ends the phases of what it
  /// does on `clock`. Collective if `traffic` is not 0.
  virtual void finish(StepClock& clock) = 0;
  virtual void check() = 0;                   ///< see `comm::GradientReducer`
  virtual comm::Traffic traffic() const = 0;  ///< messages of this rank in the last step
};

/// Creates an update in which every replica updates its own parameters, without communication.
std::unique_ptr<ParameterUpdate> make_local_update(backend::Plan& plan);

/// Creates the update for the reducer of the configuration. With the reducer parameter-server and
/// several ranks, rank 0 updates the parameters and sends them to the others. `replica` and
/// `transport` must outlive it. Collective over the data-parallel group.
std::unique_ptr<ParameterUpdate> make_parameter_update(const TrainingContext& context,
                                                       Replica& replica,
                                                       comm::GradientTransport& transport);

}  // namespace lockstep::train
