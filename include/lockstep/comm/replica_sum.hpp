#pragma once

#include <span>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/replica.hpp"

namespace lockstep::comm {

/// All-reduce of batch-norm statistics over the ranks of `communicator`, which must outlive this
/// object.
class ReplicaSum final : public core::StatisticsSum {
 public:
  explicit ReplicaSum(Communicator& communicator) : communicator_(communicator) {}

  int replicas() const override { return communicator_.size(); }
  void sum(std::span<float> values) override { communicator_.sum(values); }

 private:
  Communicator& communicator_;
};

}  // namespace lockstep::comm
