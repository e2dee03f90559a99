// Tests the tracer of kernels with a library that replaces CUPTI (fake_cupti.cpp), and without any
// library.

#include "backend/cuda/device/cupti_tracer.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "backend/cuda/device/cupti_records.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> fake{LOCKSTEP_FAKE_CUPTI};

/// Multiprocessor limits of the H100: 2,048 threads, 65,536 registers.
cudaOccDeviceProp h100() {
  cudaOccDeviceProp device;
  device.computeMajor = 9;
  device.computeMinor = 0;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = 2048;
  device.regsPerBlock = 65536;
  device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = 228 << 10;
  device.numSms = 132;
  device.sharedMemPerBlockOptin = 227 << 10;
  device.reservedSharedMemPerBlock = 1 << 10;
  return device;
}

class CuptiTracerTest : public ::testing::Test {
 protected:
  template <class Function>
  Function* function(const char* name) {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void launch(const char* name, std::uint64_t start, std::uint64_t end) {
    cupti::Kernel kernel{};
    kernel.kind = cupti::concurrent_kernel;
    kernel.name = name;
    kernel.start = start;
    kernel.end = end;
    kernel.registers = 128;
    kernel.stream = 7;
    kernel.static_shared = 1000;
    kernel.dynamic_shared = 24;
    for (const int axis : {0, 1, 2}) {
      kernel.grid[axis] = axis + 2;
      kernel.block[axis] = axis == 0 ? 256 : 1;
    }
    function<void(const cupti::Kernel*)>("fake_cupti_launch")(&kernel);
  }
  void* library_ = dlopen(fake[0].c_str(), RTLD_NOW);
};

TEST_F(CuptiTracerTest, ReturnsTheKernelsInTheOrderOfTheirStarts) {
  const auto tracer = make_cupti_tracer(fake, h100());
  launch("second", 2000, 3000);
  launch("_Z5firstv", 1000, 1500);
  launch("without_times", 0, 0);
  const auto records = tracer->take();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].name, "first()");
  EXPECT_EQ(records[1].name, "second");
  EXPECT_NEAR(records[1].end - records[1].begin, 1e-6, 1e-9);
  EXPECT_EQ(records[0].stream, 7u);
  EXPECT_EQ(records[0].blocks, 2 * 3 * 4);
  EXPECT_EQ(records[0].threads, 256);
  EXPECT_EQ(records[0].registers, 128);
  EXPECT_EQ(records[0].shared_memory, 1024);
  EXPECT_TRUE(tracer->take().empty()) << "each record once";
}

// 128 registers per thread: 65,536 / 128 = 512 threads of 2,048.
TEST_F(CuptiTracerTest, ComputesTheOccupancyFromTheResources) {
  const auto tracer = make_cupti_tracer(fake, h100());
  launch("kernel", 1000, 2000);
  EXPECT_DOUBLE_EQ(tracer->take().at(0).occupancy, 0.25);
}

TEST_F(CuptiTracerTest, RecordsOnlyUntilItIsStopped) {
  const auto tracer = make_cupti_tracer(fake, h100());
  launch("a", 1, 2);
  tracer->stop();
  launch("b", 3, 4);
  tracer->start();
  launch("c", 5, 6);
  const auto records = tracer->take();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].name, "a");
  EXPECT_EQ(records[1].name, "c");
}

TEST_F(CuptiTracerTest, ConvertsTimesToTheClockOfTheHost) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  function<void(std::uint64_t)>("fake_cupti_set_clock")(5'000'000'000);
  const double before = now();
  const auto tracer = make_cupti_tracer(fake, h100());
  const double after = now();
  launch("a", 6'000'000'000, 6'500'000'000);
  const auto records = tracer->take();
  EXPECT_GE(records.at(0).begin, before + 1 - 1e-6);
  EXPECT_LE(records.at(0).begin, after + 1 + 1e-6);
}

/// Returns the message of the usage error that `work` throws.
std::string usage_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  return "no error";
}

TEST_F(CuptiTracerTest, WithoutTheLibraryNamesTheRemedy) {
  EXPECT_THAT(usage_error([] { make_cupti_tracer({"/nowhere/libcupti.so.13"}, h100()); }),
              AllOf(HasSubstr("/nowhere/libcupti.so.13"), HasSubstr("LD_LIBRARY_PATH")));
  EXPECT_THAT(usage_error([] { make_cupti_tracer({"libm.so.6"}, h100()); }),
              HasSubstr("cuptiActivityRegisterCallbacks"));
}

TEST_F(CuptiTracerTest, ReportsTheTextOfAFailure) {
  function<void(bool)>("fake_cupti_break")(true);
  EXPECT_THAT(usage_error([] { make_cupti_tracer(fake, h100()); }),
              HasSubstr("CUPTI_ERROR_NOT_INITIALIZED"));
  function<void(bool)>("fake_cupti_break")(false);
  EXPECT_NE(make_cupti_tracer(fake, h100()), nullptr) << "and can be created again";
}

TEST(CuptiNames, BeginWithTheVersionOfTheRuntime) {
  EXPECT_EQ(cupti_names(13010).front(), "libcupti.so.13");
}

}  // namespace
}  // namespace lockstep::backend::cuda
