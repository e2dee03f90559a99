// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/agreement.hpp"

#include <gtest/gtest.h>

#include <new>

#include "expect_error.hpp"
#include "lockstep/comm/mpi_session.hpp"

namespace lockstep::train {
namespace {

class AgreementTest : public ::testing::Test {
 protected:
  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  int last() const { return world_->size() - 1; }
};

TEST_F(AgreementTest, NoRankThrowsIfNoRankFailed) {
  int calls = 0;
  together(*world_, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST_F(AgreementTest, AllRanksThrowTheErrorThatTheFailingRankReports) {
  try {
    together(*world_, [&] {
      if (world_->rank() == last()) core::fail(core::ExitStatus::input, "no such file; find it");
    });
    FAIL() << "a failure was kept from this rank";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::input);
    EXPECT_STREQ(error.what(), "no such file; find it");
    EXPECT_EQ(error.is_reporting(), world_->rank() == last());
  }
}

TEST_F(AgreementTest, TheFirstOfSeveralFailingRanksReports) {
  try {
    together(*world_, [] { throw std::bad_alloc(); });
    FAIL() << "a failure was kept from this rank";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::out_of_memory);
    EXPECT_EQ(error.is_reporting(), world_->rank() == 0);
  }
}

TEST_F(AgreementTest, GroupsAgreeOnTheErrorOfARankOfAnotherGroup) {
  const auto group = world_->split(world_->rank() % 2, world_->rank());
  try {
    together_over_groups(*world_, [&] {
      together(*group, [&] {
        if (world_->rank() == last()) core::fail(core::ExitStatus::out_of_memory, "no memory left");
      });
    });
    FAIL() << "a failure was kept from this rank";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::out_of_memory);
    EXPECT_STREQ(error.what(), "no memory left");
    EXPECT_EQ(error.is_reporting(), world_->rank() == last());
  }
}

// The ranks of a group may wait for the rank that failed, so it must not wait for their agreement.
TEST_F(AgreementTest, GroupsPassErrorsOnWhichTheyHaveNotAgreed) {
  try {
    together_over_groups(*world_, [] { core::fail(core::ExitStatus::out_of_memory, "full"); });
    FAIL() << "the error was lost";
  } catch (const AgreedError&) {
    FAIL() << "the ranks agreed on an error that only one rank may have";
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(), "full");
  }
}

TEST_F(AgreementTest, NamesTheFirstDifference) {
  require_equal(*world_, {{"lr", "0.1"}, {"seed", "1"}}, "options");
  if (world_->size() == 1) return;  // no other rank that could differ
  const std::string seed = world_->rank() == last() ? "7" : "1";
  expect_error<AgreedError>(core::ExitStatus::usage,
                            {"seed is '1' on rank 0 but '7' on rank", "options"}, [&] {
                              require_equal(*world_, {{"lr", "0.1"}, {"seed", seed}}, "options");
                            });
}

}  // namespace
}  // namespace lockstep::train
