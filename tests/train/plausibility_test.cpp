// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/plausibility.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "train/small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class Plausibility : public ::testing::Test {
 protected:
  /// Returns the warnings about `config_` on this number of ranks with 64 training images.
  std::vector<std::string> warnings(Norm norm = Norm::with_batch_norm) {
    config_.global_batch = config_.batch_per_rank * world_->size();
    const graph::Graph graph = small_graph(norm);
    const data::TrainingData data = small_data();
    const auto backend = backend::make_backend(backend::DeviceKind::cpu, 1);
    return implausible_plan({config_, graph, data, *backend, *world_, *world_}, run_);
  }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  Config config_ = [] {
    Config config;
    config.batch_per_rank = 8;
    config.epochs = 2;
    return config;
  }();
  RunDescription run_ = [this] {
    RunDescription run;
    run.steps_per_epoch = 64 / (8 * world_->size());
    run.total_steps = 2 * run.steps_per_epoch;
    return run;
  }();
};

TEST_F(Plausibility, AnOrdinaryRunCausesNoWarning) {
  config_.optimiser.warmup_epochs = 1;
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(Plausibility, FewImagesPerBatchNormAreNamed) {
  config_.batch_per_rank = 2;
  const std::string remedy = world_->size() > 1 ? "use --bn sync, or a" : "use a larger batch";
  run_.steps_per_epoch = 1;  // no repeated images
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("over 2 images per rank")));
  EXPECT_THAT(warnings().front(), HasSubstr(remedy));
  EXPECT_THAT(warnings(Norm::without), IsEmpty());
  config_.batch_norm = BatchNormMode::sync;
  EXPECT_EQ(warnings().size(), world_->size() > 1 ? 0u : 1u);
  config_.batch_norm = BatchNormMode::broadcast;
  config_.batch_per_rank = 8;
  config_.pipeline.micro_batches = 8;
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("over 1 image per rank")));
}

TEST_F(Plausibility, WarmUpThatIsNotShorterThanTheRunIsNamed) {
  config_.optimiser.warmup_epochs = 2;
  EXPECT_THAT(warnings(), ElementsAre(StartsWith("--warmup-epochs 2: the run of ")));
}

TEST_F(Plausibility, RepeatedImagesAreCounted) {
  ++run_.steps_per_epoch;
  const int repeated = 8 * world_->size();
  EXPECT_THAT(warnings(),
              ElementsAre(HasSubstr(std::to_string(64 + repeated) + " images, " +
                                    std::to_string(repeated) + " of which are repeated")));
}

TEST(ResultPlausibility, LossAboveThatOfGuessingIsNamed) {
  const graph::Graph graph = small_graph(Norm::with_batch_norm);  // 10 classes
  record::EpochRecord epoch;
  epoch.epoch = 3;
  const auto warning = [&](double train_loss, double test_loss) {
    epoch.train_loss = train_loss;
    epoch.test_loss = test_loss;
    return implausible_result(graph, epoch);
  };
  const double guessing = std::log(10), unknown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(warning(100, guessing - 1e-6), "");
  EXPECT_THAT(warning(1, guessing + 1e-6), StartsWith("the test loss 2.303 after epoch 3 is above "
                                                      "ln(10) = 2.3026"));
  EXPECT_EQ(warning(9.9 * guessing, unknown), "");
  EXPECT_EQ(implausible_test_loss(graph, guessing - 1e-6), "");
  EXPECT_THAT(implausible_test_loss(graph, 41510), StartsWith("the test loss 4.151e+04 is above"));
  EXPECT_THAT(warning(4.6e15, unknown), StartsWith("the training loss 4.6e+15 after epoch 3"));
}

}  // namespace
}  // namespace lockstep::train
