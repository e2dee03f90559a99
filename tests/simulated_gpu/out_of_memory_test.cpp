// SPDX-License-Identifier: BSD-3-Clause
// Lets every request for memory of a training run fail once, on one rank. All ranks must end with
// the same error, and release everything.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>

#include "comm/world.hpp"
#include "lockstep/study/ladder.hpp"
#include "lockstep/study/roofline.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"
#include "simulated_gpu/runtime.hpp"
#include "train/small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;

class OutOfMemory : public ::testing::Test {
 protected:
  void TearDown() override { simulated_gpu::fail_allocation(0); }

  Config config(comm::TransportKind transport) const {
    Config config = small_config(world_->size());
    config.reducer.algorithm = transport == comm::TransportKind::staged
                                   ? comm::AllReduceAlgorithm::direct
                                   : comm::AllReduceAlgorithm::automatic;
    config.transport.kind = transport;
    config.transport.allow_sharing = true;
    config.batch_norm = BatchNormMode::sync;
    config.device.deterministic = true;
    config.epochs = 0;
    config.steps = 2;
    return config;
  }

  /// Trains on all ranks. Request `number` of rank `failing` fails. Returns the agreed status.
  core::ExitStatus train(const Config& config, int failing, std::int64_t number) {
    simulated_gpu::fail_allocation(world_->rank() == failing ? number : 0);
    try {
      std::unique_ptr<backend::Backend> backend;
      together(*world_, [&] {
        backend = backend::make_backend({.kind = backend::DeviceKind::cuda,
                                         .threads = 1,
                                         .deterministic = config.device.deterministic});
      });
      TrainingListener silent;
      const auto pipeline = make_pipeline(config, graph_, *world_, [&] {
        return study::measure_nodes(training_options(config, config.images_per_micro_batch()),
                                    graph_, *backend, std::uint64_t{1} << 62);
      });
      const graph::Graph& graph = pipeline ? pipeline->graph() : graph_;
      Trainer trainer({config, graph, data_, *backend, *world_,
                       pipeline ? *pipeline->replicas : *world_, nullptr, pipeline.get()},
                      silent);
      trainer.run();
    } catch (const comm::AgreedError& error) {
      return error.status();
    } catch (const std::exception& error) {
      // The other ranks do not know of the error and would wait for this rank.
      std::fprintf(stderr, "request %d of rank %d: not agreed: %s\n", static_cast<int>(number),
                   failing, error.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return core::ExitStatus::done;
  }

  /// Returns whether the request failed in the last run, on all ranks.
  bool has_failed(int failing, std::int64_t number) {
    std::array<double, 1> value{
        world_->rank() == failing && simulated_gpu::allocation_requests() >= number ? 1. : 0.};
    world_->maximum(value);
    return value[0] > 0;
  }

  /// Lets every request fail, or every request whose number is a multiple of `stride`. Returns the
  /// number of requests after whose failure the run ended. The others were for memory without which
  /// the program continues.
  int expect_agreement(const Config& config, std::int64_t stride = 1) {
    const auto before = simulated_gpu::count_objects();
    int ended = 0;
    for (std::int64_t number = stride;; number += stride) {
      const int failing = static_cast<int>(number) % world_->size();
      const core::ExitStatus status = train(config, failing, number);
      EXPECT_EQ(simulated_gpu::count_objects(), before) << "request " << number;
      if (!has_failed(failing, number)) {
        EXPECT_EQ(status, core::ExitStatus::done);
        return ended;
      }
      if (status == core::ExitStatus::done) continue;
      EXPECT_EQ(status, core::ExitStatus::out_of_memory) << "request " << number;
      ++ended;
    }
  }

  std::unique_ptr<comm::Communicator> world_ = comm::make_world();
  graph::Graph graph_ = small_graph(Norm::with_batch_norm);
  data::TrainingData data_ = small_data();
};

TEST_F(OutOfMemory, IsAgreedWithNccl) {
  Config half = config(comm::TransportKind::nccl);
  half.plan.precision = core::Precision::fp16;
  half.plan.max_gradient_norm = 1;
  EXPECT_GT(expect_agreement(half), 50);
}

TEST_F(OutOfMemory, IsAgreedWithTheStagedTransport) {
  EXPECT_GT(expect_agreement(config(comm::TransportKind::staged)), 50);
}

// The stages of a pipeline agree, too, although they are different data-parallel groups.
TEST_F(OutOfMemory, IsAgreedInPipelines) {
  Config stages = config(comm::TransportKind::nccl);
  stages.pipeline.stages = std::min(2, world_->size());
  stages.pipeline.cuts = world_->size() > 1 ? "flops" : "auto";
  stages.pipeline.micro_batches = 2;
  stages.batch_per_rank = 0;
  stages.global_batch = 16;
  EXPECT_GT(expect_agreement(resolve(stages, world_->size())), 50);
}

// Timing adds hundreds of requests per graph, without which the program continues.
TEST_F(OutOfMemory, IsAgreedWhileEnginesAreTimed) {
  Config timed = config(comm::TransportKind::nccl);
  timed.device.deterministic = false;
  timed.batch_norm = BatchNormMode::local;
  EXPECT_GT(expect_agreement(timed, 97), 0);
}

}  // namespace
}  // namespace lockstep::train
