#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/train/prediction_models.hpp"
#include "support.hpp"

namespace lockstep::train {
namespace {

using core::ExitStatus;
using core::Precision;

class Gpu : public testing::TestWithParam<std::string> {};

TEST_P(Gpu, HasPlausibleRatesWithSources) {
  const GpuModel gpu = gpu_model(GetParam(), Precision::fp16);
  double peak = 0, peak_memory = 0;
  for (const Quantity& quantity : gpu.quantities) {
    EXPECT_GT(quantity.source.size(), 20u) << quantity.name << ": the source is a sentence";
    if (quantity.name == "peak_fp16") peak = quantity.value.low;
    if (quantity.name == "peak_memory") peak_memory = quantity.value.low;
  }
  EXPECT_GT(gpu.flops_per_second, 0.5 * peak);
  EXPECT_LT(gpu.flops_per_second, peak);
  EXPECT_GT(gpu.bytes_per_second, 0.5 * peak_memory);
  EXPECT_LT(gpu.bytes_per_second, peak_memory);
  EXPECT_LT(gpu.on_chip_memory.low, gpu.on_chip_memory.high);
}

// The device descriptions are used for the choice of kernels, the models for their times.
TEST_P(Gpu, AgreesWithItsDeviceDescription) {
  const GpuModel gpu = gpu_model(GetParam(), Precision::fp16);
  std::ifstream file(std::string(LOCKSTEP_DEVICE_DESCRIPTIONS) + "/" + GetParam() + ".json");
  const nlohmann::json description = nlohmann::json::parse(file);
  EXPECT_EQ(gpu.multiprocessors, description["multiProcessorCount"].get<double>());
  EXPECT_EQ(gpu.second_level_cache, description["l2CacheSize"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(All, Gpu, testing::ValuesIn(modelled_gpus()));

TEST(GpuModel, RejectsUnknownNamesAndPrecisions) {
  expect_error(ExitStatus::usage, "v100", [] { gpu_model("v100", Precision::fp16); });
  expect_error(ExitStatus::usage, "bf16", [] { gpu_model("rtx8000", Precision::bf16); });
}

TEST(GpuModel, ListsTheRatesOfItsPrecisionOnly) {
  for (const Quantity& quantity : gpu_model("h200", Precision::tf32).quantities) {
    EXPECT_THAT(quantity.name, testing::Not(testing::EndsWith("bf16")));
    EXPECT_THAT(quantity.name, testing::Not(testing::EndsWith("fp32")));
  }
}

TEST(NetworkModel, TakesTheLinksOfTheGpu) {
  const GpuModel h200 = gpu_model("h200", Precision::bf16);
  const NetworkModel nvlink = network_model("nvlink", h200);
  ASSERT_TRUE(nvlink.bus && nvlink.bus_of_8 && nvlink.adapter);
  EXPECT_EQ(nvlink.bus->low, 365e9);
  EXPECT_EQ(nvlink.bus_of_8->high, 480e9);
  EXPECT_EQ(network_model("pcie", h200).bus->high, 35e9);
  EXPECT_EQ(network_model("infiniband", h200).ranks_per_node, 1);
  expect_error(ExitStatus::usage, "no such link",
               [] { network_model("nvlink", gpu_model("l40s", Precision::bf16)); });
  expect_error(ExitStatus::usage, "nvlink, pcie", [&] { network_model("token-ring", h200); });
}

class NetworkFile : public testing::Test {
 protected:
  NetworkModel read(const std::string& text) {
    std::ofstream(path_) << text;
    return network_model(path_, gpu_model("h200", Precision::bf16));
  }
  void expect_invalid(const std::string& text, const std::string& message) {
    expect_error(ExitStatus::input, message, [&] { read(text); });
  }
  ~NetworkFile() override { std::filesystem::remove(path_); }

 private:
  std::string path_ = testing::TempDir() + "network_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

TEST_F(NetworkFile, HasNumbersPairsOrQuantitiesWithSources) {
  const NetworkModel network = read(R"({"ranks_per_node": 4, "quantities": {
      "base_latency": 1e-5, "bus": [20e9, 30e9], "node_step": 2e-6,
      "adapter": {"value": 12e9, "unit": "bytes/s", "source": "nccl-tests, 3 March"}}})");
  EXPECT_EQ(network.ranks_per_node, 4);
  EXPECT_EQ(network.base_latency.high, 1e-5);
  EXPECT_EQ(network.bus->low, 20e9);
  EXPECT_EQ(network.bus->high, 30e9);
  EXPECT_EQ(network.adapter->low, 12e9);
  EXPECT_EQ(network.quantities.front().source, "nccl-tests, 3 March");
}

TEST_F(NetworkFile, IsChecked) {
  const std::string end = R"(, "base_latency": 1e-5}})";
  expect_invalid("{", "not valid JSON");
  expect_invalid("{}", "quantities");
  expect_invalid(R"({"quantities": {"bus": 1e9)" + end, "ranks_per_node");
  expect_invalid(R"({"ranks_per_node": 2, "quantities": {"bus": "fast")" + end, "'bus'");
  expect_invalid(R"({"ranks_per_node": 2, "quantities": {"bus": [2e9, 1e9])" + end, "'bus'");
  expect_invalid(R"({"ranks_per_node": 2, "quantities": {"bus": 0)" + end, "positive");
  expect_invalid(R"({"ranks_per_node": 2, "quantities": {"bandwidth": 1e9)" + end, "'bandwidth'");
  expect_invalid(R"({"ranks_per_node": 2, "quantities": {"adapter": 1e9)" + end,
                 "'bus' is missing");
  expect_invalid(R"({"ranks_per_node": 2, "quantities": {"bus": 1e9}})", "base_latency");
}

}  // namespace
}  // namespace lockstep::train
