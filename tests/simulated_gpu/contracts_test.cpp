// SPDX-License-Identifier: BSD-3-Clause
// Violates the contracts of the CUDA runtime and of kernel launches that the simulated GPU checks,
// and tests that each violation is found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cuda/device/device.hpp"
#include "backend/cuda/kernels/scalar.hpp"
#include "backend/cuda/launch.hpp"
#include "lockstep/core/error.hpp"
#include "simulated_gpu/capture.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::simulated_gpu {
namespace {

using core::check_cuda;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Contracts : public testing::Test {
 protected:
  /// Returns the violations of `work` during a capture.
  std::vector<std::string> in_capture(const std::function<void()>& work) {
    return record_violations([&] { CapturedGraph graph(stream_, work); });
  }
  void copy_to_host(void* to) {
    check_cuda(cudaMemcpyAsync(to, device_.data(), 8, cudaMemcpyDeviceToHost, stream_.get()), "");
  }
  void clear(const core::Buffer& memory, const core::Stream& stream) {
    check_cuda(cudaMemsetAsync(memory.data(), 0, memory.bytes(), stream.get()), "clearing");
  }

  core::Stream stream_ = core::make_stream(), side_ = core::make_stream();
  core::Event event_ = core::make_event(), fork_ = core::make_event(), join_ = core::make_event();
  core::Buffer device_ = core::device_buffer(64, "a test"), host_ = core::pinned_buffer(64);
};

TEST_F(Contracts, ViolationEndsTheProcess) {
  EXPECT_DEATH(violation("a rule", "its detail"), "contract violated: a rule: its detail");
}

TEST_F(Contracts, UnsafeCallsDuringACaptureAreFound) {
  const core::Event timed = core::make_event();
  check_cuda(cudaEventRecord(timed.get(), stream_.get()), "an event");
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"cudaMalloc", [] { core::device_buffer(8, "a test"); }},
      {"cudaFree", [&] { device_ = {}; }},
      {"cudaHostAlloc", [] { core::pinned_buffer(8); }},
      {"cudaFreeHost", [&] { host_ = {}; }},
      {"cudaMemset", [&] { cudaMemset(device_.data(), 0, 8); }},
      {"cudaMemcpy", [&] { cudaMemcpy(device_.data(), host_.data(), 8, cudaMemcpyHostToDevice); }},
      {"cudaDeviceSynchronize", [] { cudaDeviceSynchronize(); }},
      {"cudaStreamSynchronize", [&] { cudaStreamSynchronize(side_.get()); }},
      {"cudaStreamQuery", [&] { cudaStreamQuery(side_.get()); }},
      {"cudaStreamCreateWithPriority", [] { core::make_stream(); }},
      {"cudaEventSynchronize", [&] { cudaEventSynchronize(timed.get()); }},
      {"cudaEventQuery", [&] { cudaEventQuery(timed.get()); }},
      {"cudnnCreate", [] { backend::cuda::Target::device(0); }},
  };
  for (const auto& [name, call] : calls) {
    device_ = core::device_buffer(64, "a test");
    host_ = core::pinned_buffer(64);
    EXPECT_THAT(in_capture(call),
                testing::Contains(AllOf(HasSubstr("capture-unsafe call"), HasSubstr(name))))
        << name;
  }
}

TEST_F(Contracts, QueryOfACapturedEventIsFound) {
  check_cuda(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "capture");
  check_cuda(cudaEventRecord(event_.get(), stream_.get()), "an event");
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream_.get(), &graph), "capture");
  EXPECT_THAT(record_violations([&] { cudaEventQuery(event_.get()); }),
              ElementsAre(HasSubstr("capture-unsafe call: cudaEventQuery of an event")));
  check_cuda(cudaGraphDestroy(graph), "capture");
}

TEST_F(Contracts, FirstLaunchOfAKernelDuringACaptureIsFound) {
  Module module;
  EXPECT_THAT(in_capture([&] { module.load("a kernel"); }),
              ElementsAre(HasSubstr("capture-unsafe call: the first launch of a kernel")));
  EXPECT_THAT(in_capture([&] { module.load("a kernel"); }), IsEmpty());
}

TEST_F(Contracts, CapturedStreamThatWaitsForUncapturedWorkIsFound) {
  clear(device_, side_);
  check_cuda(cudaEventRecord(event_.get(), side_.get()), "an event");
  EXPECT_THAT(in_capture([&] { cudaStreamWaitEvent(stream_.get(), event_.get(), 0); }),
              ElementsAre(HasSubstr("waits for work that is not captured")));
}

TEST_F(Contracts, UncapturedStreamThatWaitsForACaptureIsFound) {
  EXPECT_THAT(record_violations([&] {
                const CapturedGraph graph(stream_,
                                          [&] { cudaEventRecord(event_.get(), stream_.get()); });
                cudaStreamWaitEvent(side_.get(), event_.get(), 0);
              }),
              ElementsAre(HasSubstr("waits for an event of a capture that has ended")));
}

TEST_F(Contracts, ForkThatIsNotJoinedIsFound) {
  const auto fork = [&] {
    cudaEventRecord(fork_.get(), stream_.get());
    cudaStreamWaitEvent(side_.get(), fork_.get(), 0);
    clear(device_, side_);
  };
  EXPECT_THAT(in_capture(fork), ElementsAre(HasSubstr("fork that is not joined")));
  const auto join = [&] {
    fork();
    cudaEventRecord(join_.get(), side_.get());
    cudaStreamWaitEvent(stream_.get(), join_.get(), 0);
  };
  EXPECT_THAT(in_capture(join), IsEmpty());
  // Work on the other stream after the join is not joined either.
  EXPECT_THAT(in_capture([&] {
                join();
                clear(device_, side_);
              }),
              ElementsAre(HasSubstr("fork that is not joined")));
}

TEST_F(Contracts, RaceBetweenStreamsOfACaptureIsFound) {
  const core::Buffer other = core::device_buffer(64, "a test");
  const auto beside = [&](const core::Buffer& memory) {
    return in_capture([&] {
      cudaEventRecord(fork_.get(), stream_.get());
      cudaStreamWaitEvent(side_.get(), fork_.get(), 0);
      clear(device_, side_);
      clear(memory, stream_);
      cudaEventRecord(join_.get(), side_.get());
      cudaStreamWaitEvent(stream_.get(), join_.get(), 0);
      clear(device_, stream_);  // behind the join
    });
  };
  EXPECT_THAT(beside(device_), ElementsAre(HasSubstr("race between streams")));
  EXPECT_THAT(beside(other), IsEmpty());
}

TEST_F(Contracts, GraphThatIgnoresPrioritiesIsFound) {
  const core::Stream high = core::make_stream(core::StreamPriority::high);
  EXPECT_THAT(record_violations([&] { CapturedGraph graph(high, [&] { clear(device_, high); }); }),
              ElementsAre(HasSubstr("priorities of captured work")));
}

TEST_F(Contracts, CapturedCopyToPageableMemoryIsFound) {
  double pageable = 0;
  EXPECT_THAT(in_capture([&] { copy_to_host(&pageable); }),
              ElementsAre(HasSubstr("captured copy from or to pageable memory")));
  EXPECT_THAT(in_capture([&] { copy_to_host(host_.data()); }), IsEmpty());
}

// The host must not find the previous value, which could be right by chance.
TEST_F(Contracts, ResultThatIsReadBeforeAWaitIsNotANumber) {
  double& result = host_.as<double>()[0];
  copy_to_host(host_.data());
  EXPECT_TRUE(std::isnan(result));
  check_cuda(cudaStreamSynchronize(stream_.get()), "copy");
  EXPECT_EQ(result, 0);
  const CapturedGraph graph(stream_, [&] { copy_to_host(host_.data()); });
  EXPECT_EQ(result, 0);
  graph.launch(stream_);
  EXPECT_TRUE(std::isnan(result));
  check_cuda(cudaStreamSynchronize(stream_.get()), "copy");
  EXPECT_EQ(result, 0);
}

TEST_F(Contracts, MemoryFreedBeforeTheGraphThatUsesItIsFound) {
  using MemoryUser = std::function<void()>;
  const std::array<MemoryUser, 3> users{[&] { clear(device_, stream_); },
                                        [&] { copy_to_host(host_.data()); },
                                        [&] {
                                          Task task{.kind = WorkKind::kernel, .run = [] {}};
                                          std::byte* const argument = device_.data() + 8;
                                          add_arguments(argument, task);
                                          enqueue(stream_.get(), std::move(task));
                                        }};
  for (const auto& user : users) {
    device_ = core::device_buffer(64, "a test");
    EXPECT_THAT(record_violations([&] {
                  const CapturedGraph graph(stream_, user);
                  device_ = {};
                }),
                ElementsAre(HasSubstr("memory freed before the graph that uses it")));
  }
}

// The pointers of a table in device memory are not visible to the simulation.
TEST_F(Contracts, LaunchAfterOtherMemoryWasFreedIsFound) {
  EXPECT_THAT(record_violations([&] {
                const CapturedGraph graph(stream_, [] {});
                device_ = {};
                graph.launch(stream_);
              }),
              ElementsAre(HasSubstr("memory was freed that existed at its capture")));
}

TEST_F(Contracts, AccessOutsideOfAnAllocationIsFound) {
  const auto found = ElementsAre(HasSubstr("access outside of an allocation"));
  EXPECT_THAT(record_violations([&] { cudaMemsetAsync(device_.data() + 60, 0, 5, stream_.get()); }),
              found);
  EXPECT_THAT(record_violations([&] { copy_to_host(host_.data() + 64); }), IsEmpty())
      << "host memory may be pageable";
  const std::byte* const freed = device_.data();
  device_ = {};
  Task task;
  EXPECT_THAT(record_violations([&] { add_arguments(freed, task); }), found);
}

TEST_F(Contracts, PaddingOfArgumentsIsNotTakenForAPointer) {
  struct Arguments {
    std::int64_t count;
    float epsilon;
  };
  const std::byte* const freed = device_.data();
  device_ = {};
  // The second word is epsilon, which has the lower half of the address, and padding.
  const std::array words{std::uintptr_t{0}, reinterpret_cast<std::uintptr_t>(freed)};
  Arguments arguments;
  static_assert(sizeof words == sizeof arguments);
  std::memcpy(&arguments, &words, sizeof words);
  Task task;
  EXPECT_THAT(record_violations([&] { add_arguments(arguments, task); }), IsEmpty());
}

class ElapsedTime : public Contracts {
 protected:
  void record(const core::Event& event, unsigned flags = cudaEventRecordDefault) {
    check_cuda(cudaEventRecordWithFlags(event.get(), stream_.get(), flags), "an event");
  }
  std::vector<std::string> read(const core::Event& begin, const core::Event& end) {
    float milliseconds = 0;
    return record_violations([&] { cudaEventElapsedTime(&milliseconds, begin.get(), end.get()); });
  }
  void wait() { check_cuda(cudaStreamSynchronize(stream_.get()), "waiting"); }

  core::Event begin_ = core::make_event(core::EventUse::timing);
  core::Event end_ = core::make_event(core::EventUse::timing);
};

TEST_F(ElapsedTime, EventsMustBeRecordedAndComplete) {
  EXPECT_THAT(read(begin_, end_), testing::Contains(HasSubstr("was not recorded")));
  record(begin_);
  record(end_);
  EXPECT_THAT(read(begin_, end_), testing::Contains(HasSubstr("not complete")));
  wait();
  EXPECT_THAT(read(begin_, end_), IsEmpty());
  EXPECT_THAT(read(end_, begin_), ElementsAre(HasSubstr("recorded before the begin")));
  record(begin_);
  EXPECT_THAT(read(begin_, end_), testing::Contains(HasSubstr("not complete")));
  record(event_);
  wait();
  EXPECT_THAT(read(begin_, event_), ElementsAre(HasSubstr("without timing")));
}

TEST_F(ElapsedTime, EventsOfAGraphMustBelongToOneLaunch) {
  const CapturedGraph both(stream_, [&] {
    record(begin_, cudaEventRecordExternal);
    record(end_, cudaEventRecordExternal);
  });
  both.launch(stream_);
  EXPECT_THAT(read(begin_, end_), testing::Contains(HasSubstr("not complete")));
  wait();
  EXPECT_THAT(read(begin_, end_), IsEmpty());
  const CapturedGraph one(stream_, [&] { record(end_, cudaEventRecordExternal); });
  one.launch(stream_);
  wait();
  EXPECT_THAT(read(begin_, end_), ElementsAre(HasSubstr("different launches")));
}

TEST_F(Contracts, LaunchBeyondTheLimitsIsFound) {
  constexpr std::int64_t most = 0x7fffffff;
  const auto found = [](const Launch& launch) {
    return record_violations([&] { require_launchable(launch); }).size();
  };
  EXPECT_EQ(found({.blocks = {most, 65535, 65535}, .threads = {1024, 1, 1}}), 0u);
  EXPECT_EQ(found({.blocks = {most + 1, 1, 1}}), 1u);
  EXPECT_EQ(found({.blocks = {0, 1, 1}}), 1u);
  EXPECT_EQ(found({.blocks = {1, 65536, 1}}), 1u);
  EXPECT_EQ(found({.blocks = {1, 1, 65536}}), 1u);
  EXPECT_EQ(found({.threads = {1025, 1, 1}}), 1u);
  EXPECT_EQ(found({.threads = {32, 33, 1}}), 1u);
  EXPECT_EQ(found({.threads = {1, 1, 65}}), 1u);
  EXPECT_EQ(found({.shared_bytes = (48 << 10) + 1}), 1u);
}

/// A kernel of any number of indices.
template <int team_size>
struct Counted {
  static constexpr int team = team_size;
  std::int64_t indices;
  std::int64_t count() const { return indices; }
};

TEST_F(Contracts, LaunchesAreWithinTheLimits) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto blocks = [](const auto& kernel) {
    const std::int64_t count = backend::cuda::launch_blocks(kernel);
    constexpr int threads = backend::cuda::kernels::block_threads;
    if (count > 0) require_launchable({.blocks = {count, 1, 1}, .threads = {threads, 1, 1}});
    return count;
  };
  EXPECT_EQ(blocks(Counted<1>{0}), 0);
  EXPECT_EQ(blocks(Counted<1>{-1}), 0);
  EXPECT_EQ(blocks(Counted<1>{256}), 1);
  EXPECT_EQ(blocks(Counted<1>{257}), 2);
  EXPECT_EQ(blocks(Counted<32>{257}), 33);
  EXPECT_EQ(blocks(Counted<256>{257}), 257);
  constexpr std::int64_t most_blocks = 0x7fffffff;
  EXPECT_EQ(blocks(Counted<256>{most_blocks}), most_blocks);
  EXPECT_THROW(blocks(Counted<256>{most_blocks + 1}), core::Error);
  EXPECT_THROW(blocks(Counted<1>{most}), core::Error);
}

TEST_F(Contracts, MisalignedVectorAccessEndsTheProcess) {
  using namespace backend::cuda::kernels;
  const float* const values = device_.as<float>().data();
  EXPECT_EQ(load_pack<4>(values).values[0], 0);
  EXPECT_DEATH(load_pack<4>(values + 1), "accesses 16 bytes at the misaligned address");
  const float two[2] = {1, 2};
  EXPECT_DEATH(store_pack(device_.as<float>().data() + 1, two), "accesses 8 bytes at");
}

}  // namespace
}  // namespace lockstep::simulated_gpu
