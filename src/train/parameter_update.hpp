// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "timing/step_clock.hpp"

namespace lockstep::train {

struct Replica;
struct TrainingContext;

/// Computes the parameters of all replicas from the reduced gradients of a step.
class ParameterUpdate {
 public:
  /// Every replica updates its own parameters, without communication.
  explicit ParameterUpdate(backend::Plan& plan) : plan_(plan) {}

  /// The update for the reducer of the configuration. With the reducer parameter-server and several
  /// ranks, rank 0 updates the parameters and sends them to the others, which have no sums of
  /// gradients. `replica` must outlive this object. Collective over the data-parallel group.
  ParameterUpdate(const TrainingContext& context, Replica& replica);

  /// Updates `count` parameters from index `first` on, whose gradients are reduced; see
  /// `backend::Plan::update`.
  void update(std::size_t first, std::size_t count) {
    if (has_sums_) plan_.update(first, count);
  }
  /// Completes the step: with a parameter server, distributes the new parameters to all replicas.
  /// Ends the phases of what it does on `clock`. Collective if `traffic` is not 0.
  void distribute(StepClock& clock);

  /// See `comm::GradientReducer`.
  void throw_if_failed();
  /// Returns the messages of this rank in the last step.
  comm::Traffic traffic() const;

 private:
  backend::Plan& plan_;
  bool has_sums_ = true;  ///< whether this rank has the sums of the gradients
  std::unique_ptr<comm::ParameterBroadcast> broadcast_;  ///< null without parameter server
};

}  // namespace lockstep::train
