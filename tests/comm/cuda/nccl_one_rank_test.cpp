// SPDX-License-Identifier: BSD-3-Clause
// Runs the calls of NCCL in training with one rank on one GPU, in the order of a training: memory
// of NCCL, a communicator, the registration of the memory, all-reduces in a CUDA graph on a second
// stream, and the end. A sum over one rank is its input. Each step is reported with its time, and
// before it begins, so that a step that does not end is named. With one rank, training itself
// creates no communicator.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/world.hpp"
#include "cuda/nccl_communicator.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {
namespace {

using core::check_cuda;

/// Float32 gradients of ResNet-18: 45 MB.
constexpr std::size_t elements = 11'250'000;
constexpr std::size_t bytes = elements * sizeof(float);
/// The buckets of a step, in elements.
constexpr std::size_t bucket = 4 << 20;

template <class Work>
void step(const char* name, Work work) {
  std::printf("%-52s ", name);
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%9.4f s\n", seconds.count());
}

/// Returns why no GPU can be used; empty if one can.
std::string missing_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return "";
  static_cast<void>(cudaGetLastError());
  return status == cudaSuccess ? "there is no GPU" : cudaGetErrorString(status);
}

/// A CUDA graph of the work of `queue` on `stream`, as training captures a step.
class StepGraph {
 public:
  template <class Queue>
  StepGraph(const core::Stream& stream, Queue queue) {
    check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "capture");
    queue();
    check_cuda(cudaStreamEndCapture(stream.get(), &graph_), "the end of the capture");
    check_cuda(cudaGraphInstantiate(&exec_, graph_, cudaGraphInstantiateFlagUseNodePriority),
               "instantiation");
    check_cuda(cudaGraphUpload(exec_, stream.get()), "upload");
    check_cuda(cudaStreamSynchronize(stream.get()), "upload");
  }
  ~StepGraph() {
    cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  void launch(const core::Stream& stream) const {
    check_cuda(cudaGraphLaunch(exec_, stream.get()), "a replay");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

std::vector<float> values_of_replay(int replay) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i)
    values[i] = static_cast<float>(replay) + static_cast<float>(i % 1024) / 1024;
  return values;
}

class NcclOneRank : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = missing_gpu(); !reason.empty()) {
      const char* const required = std::getenv("LOCKSTEP_REQUIRE_GPU");
      if (required != nullptr && std::string_view(required) == "1") FAIL() << reason;
      GTEST_SKIP() << reason;
    }
    world_ = make_world();
    ASSERT_EQ(world_->size(), 1) << "run this test with one rank";
    std::printf("%s\n", nccl_library_version().c_str());
    compute_ = core::make_stream();
    sums_ = core::make_stream(core::StreamPriority::high);
  }

  void open() {
    step("ncclMemAlloc of 45 MB", [&] { memory_ = registrable_memory(bytes); });
    ASSERT_EQ(memory_.bytes(), bytes) << "NCCL cannot allocate memory";
    step("ncclCommInitRankConfig", [&] {
      communicator_ = std::make_unique<NcclCommunicator>(
          *world_, group_,
          NcclOptions{.name = "lockstep-gradients", .deadline = std::chrono::seconds(20)});
    });
    step("registration of the memory", [&] {
      communicator_->register_memory({memory_.data(), memory_.bytes()});
    });
    std::printf("registered as: %s\n", std::string(communicator_->registration()).c_str());
  }

  void sum_buckets() {
    for (std::size_t first = 0; first < elements; first += bucket) {
      check_cuda(cudaEventRecord(fork_.get(), compute_.get()), "the fork");
      check_cuda(cudaStreamWaitEvent(sums_.get(), fork_.get()), "the fork");
      communicator_->sum(memory_.data() + first * sizeof(float), std::min(bucket, elements - first),
                         core::DataType::float32, sums_.get());
    }
    check_cuda(cudaEventRecord(join_.get(), sums_.get()), "the join");
    check_cuda(cudaStreamWaitEvent(compute_.get(), join_.get()), "the join");
  }

  void warm_up() {
    step("first all-reduces, outside of a graph", [&] {
      sum_buckets();
      communicator_->finish(sums_.get());
    });
  }

  std::unique_ptr<Communicator> world_;
  core::Stream compute_, sums_;
  core::Event fork_ = missing_gpu().empty() ? core::make_event() : core::Event();
  core::Event join_ = missing_gpu().empty() ? core::make_event() : core::Event();
  NcclGroup group_;
  core::Buffer memory_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

TEST_F(NcclOneRank, CapturedAllReducesOfRegisteredMemory) {
  open();
  warm_up();
  const core::Buffer input = core::device_buffer(bytes, "a test");
  const core::Buffer output = core::device_buffer(bytes, "a test");
  std::unique_ptr<StepGraph> graph;
  const auto copy = [&](const core::Buffer& to, const core::Buffer& from) {
    check_cuda(
        cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, compute_.get()),
        "a copy");
  };
  step("capture with a forked and joined stream", [&] {
    graph = std::make_unique<StepGraph>(compute_, [&] {
      copy(memory_, input);
      sum_buckets();
      copy(output, memory_);
    });
  });
  for (int replay = 1; replay <= 3; ++replay) {
    const std::vector<float> values = values_of_replay(replay);
    core::copy_to_device(input.data(), std::as_bytes(std::span(values)), "a test");
    step("replay", [&] {
      graph->launch(compute_);
      communicator_->finish(compute_.get());
    });
    std::vector<float> sums(elements);
    check_cuda(cudaMemcpy(sums.data(), output.data(), bytes, cudaMemcpyDeviceToHost), "a test");
    EXPECT_TRUE(sums == values) << "replay " << replay << ": a sum over one rank is its input";
  }
  communicator_->throw_if_failed();
  step("destruction of the graph", [&] { graph = nullptr; });
  step("deregistration, ncclCommFinalize, ncclCommDestroy", [&] { communicator_ = nullptr; });
  step("ncclMemFree", [&] { memory_ = {}; });
}

TEST_F(NcclOneRank, AbortEndsAfterTheDestructionOfTheGraph) {
  open();
  warm_up();
  std::unique_ptr<StepGraph> graph;
  step("capture", [&] { graph = std::make_unique<StepGraph>(compute_, [&] { sum_buckets(); }); });
  step("ncclCommAbort begins", [&] { communicator_->abort(); });
  EXPECT_THROW(communicator_->throw_if_failed(), core::Error);
  step("destruction of the graph", [&] { graph = nullptr; });
  step("end of the abort", [&] { communicator_ = nullptr; });
  step("ncclMemFree", [&] { memory_ = {}; });
}

}  // namespace
}  // namespace lockstep::comm
