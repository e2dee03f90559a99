// SPDX-License-Identifier: BSD-3-Clause
// Tests the device descriptions for offline planning against the versions of cuDNN that read them.

#include <cudnn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cudnn_frontend/thirdparty/nlohmann/json.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planning.hpp"

namespace lockstep::backend::cuda::test {
namespace {

struct Field {
  const char* name;
  std::size_t required_since;  ///< as cudnnGetVersion() returns it
};

/// Fields without which cuDNN refuses a description: found by removing one field after the other
/// and giving the rest to cuDNN 9.12, 9.19, 9.27 and 9.28. 9.12 is the oldest for CUDA 13.
constexpr std::size_t oldest = 91200;
const std::vector<Field> required_fields{
    {"deviceName", oldest},
    {"cudaDeviceId", oldest},
    {"deviceVer", oldest},
    {"driverVer", oldest},
    {"totalGlobalMem", oldest},
    {"maxGridSize", oldest},
    {"maxBlockSize", oldest},
    {"regsPerBlock", oldest},
    {"multiProcessorCount", oldest},
    {"warpSize", oldest},
    {"maxSharedMemoryPerBlock", oldest},
    {"maxSharedMemoryPerBlockOptin", oldest},
    {"reservedSharedMemoryPerBlock", oldest},
    {"maxRegistersPerSM", oldest},
    {"maxCtasPerSM", oldest},
    {"maxThreadsPerBlock", oldest},
    {"maxThreadsPerSM", oldest},
    {"pciDeviceId", oldest},
    {"isTccDriver", oldest},
    {"supportCoopLaunch", oldest},
    {"smClockRateKHz", oldest},
    {"memClockRateKHz", oldest},
    {"l2CacheSize", oldest},
    {"memoryBusWidth", 92700},
};

/// Returns whether the cuDNN library of this process accepts a description.
bool is_accepted(const nlohmann::json& fields) {
  const std::string text = fields.dump();
  cudnnBackendDescriptor_t descriptor = nullptr;
  EXPECT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &descriptor),
            CUDNN_STATUS_SUCCESS);
  const bool accepted =
      cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                               CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()),
                               text.data()) == CUDNN_STATUS_SUCCESS &&
      cudnnBackendFinalize(descriptor) == CUDNN_STATUS_SUCCESS;
  EXPECT_EQ(cudnnBackendDestroyDescriptor(descriptor), CUDNN_STATUS_SUCCESS);
  return accepted;
}

TEST(DeviceDescriptions, HaveTheFieldsThatCudnnRequires) {
  for (const DescribedDevice& device : described_devices()) {
    const auto fields = nlohmann::json::parse(device.json);
    for (const Field& field : required_fields)
      EXPECT_TRUE(fields.contains(field.name))
          << device.name << ": " << field.name << ", which cuDNN requires since "
          << field.required_since;
  }
}

TEST(DeviceDescriptions, AreRefusedByThisCudnnWithoutARequiredField) {
  EXPECT_TRUE(open_planning_driver());
  std::printf("planned with cuDNN %zu\n", cudnnGetVersion());
  for (const DescribedDevice& device : described_devices()) {
    const auto fields = nlohmann::json::parse(device.json);
    EXPECT_TRUE(is_accepted(fields)) << device.name;
    for (const Field& field : required_fields) {
      auto rest = fields;
      rest.erase(field.name);
      EXPECT_EQ(is_accepted(rest), cudnnGetVersion() < field.required_since)
          << device.name << " without " << field.name << ", cuDNN " << cudnnGetVersion();
    }
  }
}

/// The published memory bandwidth is that of two transfers per memory clock over the whole bus.
/// 3 %: the published values are rounded, and those of HBM3e are below the highest clock.
TEST(DeviceDescriptions, HaveTheMemoryBusOfThePublishedBandwidth) {
  const std::map<std::string_view, double> published_bandwidth{
      // bytes per second
      {"a100", 2.039e12}, {"b200", 8.0e12},   {"h100", 3.35e12},
      {"h200", 4.8e12},   {"l40s", 0.864e12}, {"rtx8000", 0.672e12}};
  for (const DescribedDevice& device : described_devices()) {
    const auto fields = nlohmann::json::parse(device.json);
    const double clock = 1000 * fields.at("memClockRateKHz").get<double>();
    const double bytes_per_transfer = fields.value("memoryBusWidth", 0.0) / 8;
    const double published = published_bandwidth.at(device.name);
    EXPECT_NEAR(2 * clock * bytes_per_transfer, published, 0.03 * published) << device.name;
  }
}

}  // namespace
}  // namespace lockstep::backend::cuda::test
