// SPDX-License-Identifier: BSD-3-Clause
// Tests reading the sensors of a GPU through a library that replaces NVML (fake_nvml.c), and
// without any library.

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/device/sensors.hpp"

namespace lockstep::backend::cuda {
namespace {

constexpr const char* library = LOCKSTEP_FAKE_NVML;

TEST(Sensors, ReturnReadingsOfTheLibrary) {
  const Sensors sensors("0000:17:00.0", library);
  const SensorReading first = sensors.read(), second = sensors.read();
  EXPECT_EQ(second.energy_joules - first.energy_joules, 150);
  EXPECT_EQ(first.memory_bytes, 60);
  EXPECT_EQ(first.power_watts, 300.5);
  EXPECT_TRUE(std::isnan(first.utilisation)) << "not supported";
}

TEST(Sensors, UnknownGpuHasNoReadings) {
  const Sensors sensors("0000:18:00.0", library);
  EXPECT_TRUE(std::isnan(sensors.read().energy_joules));
}

TEST(Sensors, WithoutTheLibraryAreUnknown) {
  for (const char* other : {"/nowhere/libnvidia-ml.so.1", "libm.so.6"}) {
    const Sensors sensors("0000:17:00.0", other);
    EXPECT_TRUE(std::isnan(sensors.read().memory_bytes));
  }
}

}  // namespace
}  // namespace lockstep::backend::cuda
