#include "replica_hash.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

TEST(Hash, ChangesWithAnyBitAndAnyOrder) {
  std::vector<float> values(100, 1.0f);
  const std::string before = hash_of(values);
  EXPECT_EQ(before.size(), 16u);
  values[57] = std::nextafter(1.0f, 2.0f);
  const std::string after = hash_of(values);
  EXPECT_NE(before, after);
  std::swap(values[57], values[58]);
  EXPECT_NE(after, hash_of(values));
  EXPECT_NE(hash_of(std::vector{0.0f}), hash_of(std::vector{-0.0f}));
}

}  // namespace
}  // namespace lockstep::train
