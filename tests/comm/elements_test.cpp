// SPDX-License-Identifier: BSD-3-Clause
#include "elements.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::comm {
namespace {

TEST(ElementTypes, ArraysOfEveryTypeAreReadAndWritten) {
  const std::vector<float> values = {0, 1, -2.5f, 1024, 0.125f};  // exact in all three data types
  for (const auto type :
       {core::DataType::float32, core::DataType::bfloat16, core::DataType::float16}) {
    alignas(4) std::array<std::byte, 4 * 5 + 1> memory{};
    memory[values.size() * core::size_of(type)] = std::byte{7};
    store_floats(values, type, memory.data());
    EXPECT_EQ(memory[values.size() * core::size_of(type)], std::byte{7}) << "wrote too far";
    std::vector<float> back(values.size());
    load_floats(memory.data(), type, back);
    EXPECT_EQ(back, values);
  }
}

}  // namespace
}  // namespace lockstep::comm
