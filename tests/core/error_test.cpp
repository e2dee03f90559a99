// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/error.hpp"

#include <gmock/gmock.h>

namespace lockstep::core {
namespace {

TEST(Error, CarriesStatusAndMessage) {
  try {
    fail(ExitStatus::input, "data_batch_1.bin is truncated");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::input);
    EXPECT_STREQ(error.what(), "data_batch_1.bin is truncated");
  }
}

TEST(Error, StatusesAreTheDocumentedNumbers) {
  EXPECT_EQ(static_cast<int>(ExitStatus::usage), 2);
  EXPECT_EQ(static_cast<int>(ExitStatus::input), 3);
  EXPECT_EQ(static_cast<int>(ExitStatus::out_of_memory), 4);
  EXPECT_EQ(static_cast<int>(ExitStatus::diverged), 5);
  EXPECT_EQ(static_cast<int>(ExitStatus::output), 6);
  EXPECT_EQ(static_cast<int>(ExitStatus::internal), 70);
  EXPECT_EQ(static_cast<int>(ExitStatus::interrupted), 75);
}

TEST(Check, PassesWhatHolds) { EXPECT_NO_THROW(check(true, "one is one")); }

TEST(Check, NamesTheCallersLineInOneLine) {
  try {
    check(false, "one is two");
    FAIL() << "passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::internal);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("one is two"),
                                             testing::HasSubstr("error_test.cpp"),
                                             testing::Not(testing::HasSubstr("\n"))));
  }
}

}  // namespace
}  // namespace lockstep::core
