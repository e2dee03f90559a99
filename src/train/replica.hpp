// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/loader.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/timing/operation_clock.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::train {

/// An all-reduce of batch-norm statistics that does nothing while it is disabled: each rank loads
/// its kernels without the other ranks. Disabled at first.
class EnabledStatisticsAllReduce final : public core::StatisticsAllReduce {
 public:
  explicit EnabledStatisticsAllReduce(core::StatisticsAllReduce& all_reduce)
      : all_reduce_(all_reduce) {}

  void set_enabled(bool is_enabled) { is_enabled_ = is_enabled; }
  int replicas() const override { return all_reduce_.replicas(); }
  void sum(std::span<float> values) override {
    if (is_enabled_) all_reduce_.sum(values);
  }
  void check() override { all_reduce_.check(); }

 private:
  core::StatisticsAllReduce& all_reduce_;
  bool is_enabled_ = false;
};

/// Provides the batches of this rank to a plan, in the order of the sampler.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;

  /// Begins epoch `epoch` at its step `first_step`, both counted from 0.
  virtual void start_epoch(std::int64_t epoch, std::size_t first_step) = 0;

  /// Blocks until the next batch is ready.
  virtual void wait() = 0;

  /// Uploads the batch that `wait` has made ready to the plan. Collective over the replicas with
  /// the reducer parameter-server.
  virtual void upload() = 0;

  /// Returns the messages of this rank in the last `upload`.
  virtual comm::Traffic traffic() const { return {}; }
};

/// Creates a feed. The threads of the data loader prepare the batches; with --data-residency
/// device, all images are stored in device memory and the device prepares the batches. With the
/// reducer parameter-server and several ranks, rank 0 prepares the batches of all ranks and sends
/// them. `images`, `sampler`, `replicas` (the data-parallel group) and `plan` must outlive the
/// feed. Throws `Error`: usage if the images cannot be stored in device memory, and like
/// `DeviceDataset::load_dataset`.
std::unique_ptr<BatchFeed> make_batch_feed(const data::DataOptions& options,
                                           comm::ReducerKind reducer, const data::Dataset& images,
                                           const data::DistributedSampler& sampler,
                                           comm::Communicator& replicas, backend::Plan& plan);

/// The objects of a trainer that a rank constructs without communication.
struct Replica {
  /// `all_reduce`: all-reduce of batch-norm statistics for --bn sync; null otherwise.
  Replica(const TrainingContext& context, core::StatisticsAllReduce* all_reduce,
          core::Buffer gradients);

  data::DistributedSampler sampler;
  std::unique_ptr<EnabledStatisticsAllReduce> statistics;  ///< null unless --bn sync
  std::unique_ptr<OperationClock> operations;              ///< null unless --profile
  backend::ModelState state;
  std::unique_ptr<backend::Plan> plan;
  std::unique_ptr<BatchFeed> feed;
  std::optional<Evaluator> evaluator;
};

/// Creates the transport of the gradients. Throws `AgreedError`. Collective: all ranks must call
/// this.
std::unique_ptr<comm::GradientTransport> make_transport(const TrainingContext& context);

/// Allocates the gradients and constructs the replica. Throws `AgreedError`. Collective: all ranks
/// must call this.
std::unique_ptr<Replica> make_replica(const TrainingContext& context,
                                      comm::GradientTransport& transport);

/// Returns the options of the reducer. With --deterministic on CPUs, --all-reduce auto becomes a
/// fixed algorithm.
comm::ReducerOptions reducer_options(const TrainingContext& context);

}  // namespace lockstep::train
