// SPDX-License-Identifier: BSD-3-Clause
#include "parameter_update.hpp"

namespace lockstep::train {

namespace {

class LocalUpdate final : public ParameterUpdate {
 public:
  explicit LocalUpdate(backend::Plan& plan) : plan_(plan) {}

  void update(std::size_t first, std::size_t count) override { plan_.update(first, count); }
  void finish(StepClock&) override {}
  void check() override {}
  comm::Traffic traffic() const override { return {}; }

 private:
  backend::Plan& plan_;
};

/// Ranks other than 0 have no sums of gradients: they receive the parameters instead.
class ServerUpdate final : public ParameterUpdate {
 public:
  ServerUpdate(const TrainingContext& context, Replica& replica, comm::GradientTransport& transport)
      : plan_(*replica.plan),
        is_server_(context.data_parallel.rank() == 0),
        broadcast_(transport.make_broadcast(context.backend.parameters(replica.state))) {}

  void update(std::size_t first, std::size_t count) override {
    if (is_server_) plan_.update(first, count);
  }
  void finish(StepClock& clock) override {
    broadcast_->run();
    clock.end(record::Phase::exposed_communication);
    if (is_server_) return;
    plan_.parameters_changed();
    clock.end(record::Phase::update);
  }
  void check() override { broadcast_->check(); }
  comm::Traffic traffic() const override { return broadcast_->traffic(); }

 private:
  backend::Plan& plan_;
  bool is_server_;
  std::unique_ptr<comm::ParameterBroadcast> broadcast_;
};

}  // namespace

std::unique_ptr<ParameterUpdate> make_local_update(backend::Plan& plan) {
  return std::make_unique<LocalUpdate>(plan);
}

std::unique_ptr<ParameterUpdate> make_parameter_update(const TrainingContext& context,
                                                       Replica& replica,
                                                       comm::GradientTransport& transport) {
  if (context.config.reducer.kind == comm::ReducerKind::parameter_server &&
      context.data_parallel.size() > 1)
    return std::make_unique<ServerUpdate>(context, replica, transport);
  return make_local_update(*replica.plan);
}

}  // namespace lockstep::train
