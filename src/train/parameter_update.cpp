// SPDX-License-Identifier: BSD-3-Clause
#include "parameter_update.hpp"

#include "lockstep/train/context.hpp"
#include "replica.hpp"

namespace lockstep::train {

ParameterUpdate::ParameterUpdate(const TrainingContext& context, Replica& replica)
    : plan_(*replica.plan) {
  if (context.config.reducer.kind != comm::ReducerKind::parameter_server ||
      context.data_parallel.size() == 1)
    return;
  has_sums_ = context.data_parallel.rank() == 0;
  broadcast_ = replica.transport->make_broadcast(context.backend.parameters(replica.state));
}

void ParameterUpdate::distribute(StepClock& clock) {
  if (broadcast_ == nullptr) return;
  broadcast_->run();
  clock.end(record::Phase::exposed_communication);
  if (has_sums_) return;
  plan_.parameters_changed();
  clock.end(record::Phase::update);
}

void ParameterUpdate::throw_if_failed() {
  if (broadcast_ != nullptr) broadcast_->throw_if_failed();
}

comm::Traffic ParameterUpdate::traffic() const {
  return broadcast_ != nullptr ? broadcast_->traffic() : comm::Traffic{};
}

}  // namespace lockstep::train
