// SPDX-License-Identifier: BSD-3-Clause
// Tests the cache in which the CUDA backend stores selected cuDNN engines between runs. Needs no
// GPU.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/device/device.hpp"
#include "backend/cuda/dnn/engine_cache.hpp"
#include "backend/cuda/dnn/engine_choice.hpp"
#include "temporary_directory.hpp"

namespace lockstep::backend::cuda {
namespace {

class EngineCacheFile : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "below" / "engines.json"; }
  const TemporaryDirectory directory_;
  const std::filesystem::path folder_ = directory_.path();
};

TEST_F(EngineCacheFile, KeepsWhatWasStored) {
  EngineCache cache(file()), beside(file());
  EXPECT_FALSE(cache.find("a | b"));
  cache.store("a | b", {"eng1_k2=3", 1.5e-4});
  beside.store("c", {"eng4", 2e-4});  // as a second process that read the file before the store
  const EngineCache again(file());
  ASSERT_TRUE(again.find("a | b"));
  EXPECT_EQ(again.find("a | b")->name, "eng1_k2=3");
  EXPECT_EQ(again.find("a | b")->seconds, 1.5e-4);
  EXPECT_TRUE(again.find("c"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(file().parent_path()))
    ++files;
  EXPECT_EQ(files, 1u) << "temporary files stayed";
}

TEST_F(EngineCacheFile, KeepsTheNamesOfFaultyEngines) {
  EngineCache cache(file()), beside(file());
  cache.store("a | b", {"eng1", 1.5e-4});
  EXPECT_TRUE(cache.faulty("a | b").empty());
  cache.store_faulty("a | b", "eng2");
  beside.store_faulty("a | b", "eng3");
  beside.store("c", {"eng2", 2e-4});
  EXPECT_EQ(EngineCache(file()).faulty("a | b"), (std::set<std::string>{"eng2", "eng3"}));
  EXPECT_TRUE(EngineCache(file()).faulty("c").empty());
  EXPECT_TRUE(EngineCache(file()).find("a | b"));
}

TEST_F(EngineCacheFile, ReadsTheFileOfAVersionThatStoredNoFaultyEngines) {
  std::filesystem::create_directory(file().parent_path(), folder_);
  std::ofstream(file()) << R"({"format": 3, "engines": {"a": {"engine": "eng1", "seconds": 1}}})";
  EXPECT_TRUE(EngineCache(file()).find("a"));
  EXPECT_TRUE(EngineCache(file()).faulty("a").empty());
}

TEST_F(EngineCacheFile, KeepsEnginesWhole) {
  const std::vector<std::uint8_t> plan{0, 255, 10, 0, 7};
  EngineCache(file()).store_plan("a | b", "engine", plan);
  EXPECT_EQ(EngineCache(file()).find_plan("a | b", "engine"), plan);
  EXPECT_FALSE(EngineCache(file()).find_plan("a | c", "engine"));
  EXPECT_FALSE(EngineCache(file()).find_plan("a | b", "engine of another process"));
  // The file is truncated, or contains another key, as after a hash collision.
  for (const char* text : {"", "a |", "a | b", "a | b | engine", "other key"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "below" / "plans"))
      std::ofstream(entry.path(), std::ios::trunc) << text;
    EXPECT_FALSE(EngineCache(file()).find_plan("a | b", "engine")) << text;
  }
  EngineCache nowhere;
  nowhere.store_plan("a | b", "engine", plan);
  EXPECT_FALSE(nowhere.find_plan("a | b", "engine"));
}

TEST_F(EngineCacheFile, FoldersAreCreatedForThisUserOnly) {
  EngineCache(file()).store_plan("a", "engine", std::vector<std::uint8_t>{1});
  using enum std::filesystem::perms;
  for (const auto& folder : {folder_ / "below", folder_ / "below" / "plans"})
    EXPECT_EQ(std::filesystem::status(folder).permissions(), owner_all) << folder;
}

// Plans contain machine code, so a file that another user can write must not be loaded.
TEST_F(EngineCacheFile, IsNotUsedIfOtherUsersCanWriteToIt) {
  const std::vector<std::uint8_t> plan{1, 2, 3};
  EngineCache(file()).store("a", {"eng1", 1});
  EngineCache(file()).store_plan("a", "engine", plan);
  const auto plans = folder_ / "below" / "plans";
  using enum std::filesystem::perms;
  using enum std::filesystem::perm_options;
  for (const auto& folder : {folder_ / "below", plans}) {
    std::filesystem::permissions(folder, others_write, add);
    testing::internal::CaptureStderr();
    EngineCache cache(file());
    EXPECT_FALSE(cache.find_plan("a", "engine")) << folder;
    EXPECT_EQ(cache.find("a").has_value(), folder == plans) << folder;
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_NE(warning.find("is not used, because other users can write to it"), std::string::npos);
    std::filesystem::permissions(folder, others_write, remove);
  }
  for (const auto& entry : std::filesystem::directory_iterator(plans))
    std::filesystem::permissions(entry.path(), others_write, add);
  EXPECT_FALSE(EngineCache(file()).find_plan("a", "engine"));
  for (const auto& entry : std::filesystem::directory_iterator(plans))
    std::filesystem::permissions(entry.path(), others_write, remove);
  EXPECT_EQ(EngineCache(file()).find_plan("a", "engine"), plan);
}

TEST_F(EngineCacheFile, DamagedFileIsIgnoredAndReplaced) {
  std::filesystem::create_directories(file().parent_path());
  for (const char* text : {"", "{", "[]", "{\"format\": 3}", "{\"format\": 1, \"engines\": {}}",
                           "{\"format\": 3, \"engines\": {\"a\": {\"engine\": 5}}}"}) {
    std::ofstream(file()) << text;
    EngineCache cache(file());
    EXPECT_FALSE(cache.find("a")) << text;
    cache.store("b", {"eng1", 1e-3});
    EXPECT_TRUE(EngineCache(file()).find("b")) << text;
  }
}

TEST_F(EngineCacheFile, FileThatCannotBeReadIsIgnored) {
  std::filesystem::create_directories(file());  // a directory in place of the file
  testing::internal::CaptureStderr();
  EXPECT_FALSE(EngineCache(file()).find("a"));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("is damaged and ignored"),
            std::string::npos);
}

TEST_F(EngineCacheFile, FileThatCannotBeWrittenIsNoError) {
  std::ofstream(folder_ / "below") << "a file, no folder";
  EngineCache cache(file());
  cache.store("a", {"eng1", 1e-3});
  EXPECT_TRUE(cache.find("a"));
}

TEST(EngineCacheKey, TellsWhatTheAnswerDependsOn) {
  open_planning_driver();  // must precede the first CUDA call of the process
  DeviceInfo device;
  device.name = "NVIDIA H200";
  device.compute_capability = 90;
  device.multiprocessors = 132;
  DeviceInfo part = device;
  part.multiprocessors = 16;
  const std::set<std::string> keys{cache_key(device, {}, "a"),
                                   cache_key(device, {}, "b"),
                                   cache_key(part, {}, "a"),
                                   cache_key(device, {.workspace_limit = 0}, "a"),
                                   cache_key(device, {.deterministic = true}, "a"),
                                   cache_key(device, {.true_fp32 = true}, "a"),
                                   cache_key(device, {.batch_norm_multiprocessors = 100}, "a")};
  EXPECT_EQ(keys.size(), 7u);
  EXPECT_NE(keys.begin()->find("cuDNN"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::backend::cuda
