// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/backend/step_executor.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/train/step_result.hpp"

namespace lockstep::train {

/// What the ranks agree on after the last step of an epoch.
struct EpochAgreement {
  std::string parameter_hash;  ///< of all replicas; empty if the replicas are independent
  StepRequests requests;       ///< of any rank; none if `agree_on_step` combines them
};

/// What the replicas of a network exchange besides gradients. Synchronous replicas hold equal
/// parameters and decide together after every step; independent replicas (`--reducer none`) do not
/// communicate before the end of an epoch.
class ReplicaPolicy {
 public:
  /// `reducer`: independent replicas for `none`, synchronous ones otherwise. `data_parallel`: the
  /// data-parallel group. `world`: all ranks, which decide together; with a pipeline, the ranks of
  /// all stages. Both must outlive the policy.
  ReplicaPolicy(comm::ReducerKind reducer, comm::Communicator& data_parallel,
                comm::Communicator& world);

  /// Returns the factor by which the gradients that the reducer returns become those of the mean
  /// loss.
  float gradient_scale() const;

  /// Combines the result and the requests of step `step`, counted from 1. Throws `AgreedError`
  /// (diverged) if the loss of any rank is not finite, naming the first of these ranks and `step`;
  /// if the replicas are independent, throws `Error` (diverged) on the affected rank only.
  /// Collective unless the replicas are independent.
  StepTotals agree_on_step(const backend::BatchResult& result, StepRequests requests,
                           std::int64_t step);

  /// Throws `AgreedError` (internal) if the hashes of the parameters of the replicas after `step`
  /// steps differ and must be equal. Collective.
  void require_equal(std::uint64_t parameter_hash, std::int64_t step);

  /// Ends an epoch after `step` steps of the run: compares the hashes of the parameters of the
  /// replicas if they must be equal, and otherwise combines the requests of the ranks. Throws
  /// `AgreedError` (internal) if hashes that must be equal differ. Collective.
  EpochAgreement agree_on_epoch(std::uint64_t parameter_hash, StepRequests requests,
                                std::int64_t step);

 private:
  std::string combined_hash(std::uint64_t parameter_hash, std::int64_t step);
  /// Throws the `AgreedError` of a step in which the loss of some ranks is not finite. Collective.
  [[noreturn]] void fail_as_not_finite(bool is_finite, std::int64_t step);

  bool is_independent_;
  comm::Communicator& data_parallel_;
  comm::Communicator& world_;
};

/// Compares `hash`, the hash of the parameters of this rank, with those of the other replicas,
/// which must be equal. Returns the hash of a replica as 16 hexadecimal digits: the sum of those of
/// its stages. `stages`: number of pipeline stages; rank = replica * stages + stage. Throws
/// `AgreedError` (internal) with the ranks that differ from the majority of the replicas; without
/// majority, with all ranks and hashes. `step`: number of completed steps, for the message.
/// Collective over `world`: all ranks must call this.
std::string require_equal_replicas(comm::Communicator& world, int stages, std::uint64_t hash,
                                   std::int64_t step);

}  // namespace lockstep::train
