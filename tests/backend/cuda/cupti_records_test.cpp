// Compares the declarations of CUPTI's records with its headers, of all versions of the record that
// they contain.

#include "backend/cuda/device/cupti_records.hpp"

#include <cupti.h>
#include <gtest/gtest.h>

namespace lockstep::backend::cuda {
namespace {

template <class Record>
class CuptiRecordTest : public ::testing::Test {};
using Records =
    ::testing::Types<CUpti_ActivityKernel4, CUpti_ActivityKernel5, CUpti_ActivityKernel6,
                     CUpti_ActivityKernel7, CUpti_ActivityKernel8, CUpti_ActivityKernel9>;
TYPED_TEST_SUITE(CuptiRecordTest, Records);

TYPED_TEST(CuptiRecordTest, BeginsAsDeclared) {
  using Theirs = TypeParam;
  using Ours = cupti::Kernel;
  EXPECT_EQ(offsetof(Theirs, kind), offsetof(Ours, kind));
  EXPECT_EQ(offsetof(Theirs, registersPerThread), offsetof(Ours, registers));
  EXPECT_EQ(offsetof(Theirs, start), offsetof(Ours, start));
  EXPECT_EQ(offsetof(Theirs, end), offsetof(Ours, end));
  EXPECT_EQ(offsetof(Theirs, streamId), offsetof(Ours, stream));
  EXPECT_EQ(offsetof(Theirs, gridX), offsetof(Ours, grid));
  EXPECT_EQ(offsetof(Theirs, blockX), offsetof(Ours, block));
  EXPECT_EQ(offsetof(Theirs, staticSharedMemory), offsetof(Ours, static_shared));
  EXPECT_EQ(offsetof(Theirs, dynamicSharedMemory), offsetof(Ours, dynamic_shared));
  EXPECT_EQ(offsetof(Theirs, name), offsetof(Ours, name));
  EXPECT_GE(sizeof(Theirs), sizeof(Ours));
}

TEST(CuptiRecords, HaveTheValuesOfTheHeader) {
  EXPECT_EQ(cupti::success, CUPTI_SUCCESS);
  EXPECT_EQ(cupti::no_more_records, CUPTI_ERROR_MAX_LIMIT_REACHED);
  EXPECT_EQ(cupti::concurrent_kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

}  // namespace
}  // namespace lockstep::backend::cuda
