// SPDX-License-Identifier: BSD-3-Clause
// Tests the counters of the simulated GPU, and its order of execution.

#include <gtest/gtest.h>

#include <array>

#include "lockstep/core/cuda.hpp"
#include "simulated_gpu/capture.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::simulated_gpu {
namespace {

using core::check_cuda;

class SimulatedCounters : public testing::Test {
 protected:
  /// Enqueues one item of every kind of work that the CUDA runtime has.
  void queue_work() {
    const cudaStream_t stream = stream_.get();
    enqueue(stream, {WorkKind::kernel, [] {}});
    check_cuda(cudaMemsetAsync(device_.data(), 1, 16, stream), "memset");
    check_cuda(
        cudaMemcpyAsync(device_.data() + 32, device_.data(), 8, cudaMemcpyDeviceToDevice, stream),
        "copy");
    check_cuda(cudaMemcpyAsync(host_.data(), device_.data(), 16, cudaMemcpyDeviceToHost, stream),
               "copy");
    check_cuda(
        cudaMemcpyAsync(device_.data(), host_.data() + 32, 4, cudaMemcpyHostToDevice, stream),
        "copy");
  }
  static constexpr WorkCounters one{.kernel_launches = 1,
                                    .memsets = 1,
                                    .copies_to_device = 1,
                                    .copies_to_host = 1,
                                    .copies_on_device = 1,
                                    .bytes_to_device = 4,
                                    .bytes_to_host = 16,
                                    .bytes_on_device = 8};

  core::Stream stream_ = core::make_stream();
  core::Buffer device_ = core::device_buffer(64, "a test"), host_ = core::pinned_buffer(64);
};

TEST_F(SimulatedCounters, WorkInStreamsIsIssued) {
  reset_counters();
  queue_work();
  EXPECT_EQ(counters().issued, one);
  EXPECT_EQ(counters().in_graphs, WorkCounters{});
}

TEST_F(SimulatedCounters, WorkOfAGraphCountsInEveryLaunch) {
  reset_counters();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check_cuda(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "capture");
  queue_work();
  check_cuda(cudaStreamEndCapture(stream_.get(), &graph), "capture");
  check_cuda(cudaGraphInstantiate(&exec, graph, 0), "capture");
  EXPECT_EQ(counters().issued, WorkCounters{});
  EXPECT_EQ(counters().in_graphs, WorkCounters{});
  for (int launch = 0; launch < 3; ++launch)
    check_cuda(cudaGraphLaunch(exec, stream_.get()), "launch");
  check_cuda(cudaStreamSynchronize(stream_.get()), "launch");
  EXPECT_EQ(counters().issued, WorkCounters{});
  EXPECT_EQ(counters().in_graphs.kernel_launches, 3);
  EXPECT_EQ(counters().in_graphs.bytes_to_host, 48);
  EXPECT_EQ(counters().graph_launches, 3);
  check_cuda(cudaGraphExecDestroy(exec), "capture");
  check_cuda(cudaGraphDestroy(graph), "capture");
}

TEST_F(SimulatedCounters, PollingUntilSuccessIsOneWait) {
  const core::Event event = core::make_event();
  queue_work();
  check_cuda(cudaEventRecord(event.get(), stream_.get()), "record");
  reset_counters();
  while (cudaEventQuery(event.get()) == cudaErrorNotReady) {
  }
  EXPECT_EQ(counters().host_waits, 1);
  check_cuda(cudaEventSynchronize(event.get()), "event");
  check_cuda(cudaStreamSynchronize(stream_.get()), "stream");
  EXPECT_EQ(counters().host_waits, 3);
  EXPECT_EQ(counters().allocations, 0);
  const core::Buffer more = core::device_buffer(8, "a test");
  EXPECT_EQ(counters().allocations, 1);
}

// The nodes of a forked stream are executed only when the capturing stream waits for them, or as
// early as possible if a test asks for it.
TEST_F(SimulatedCounters, NodesOfAForkRunLateOrEarly) {
  const core::Stream side = core::make_stream();
  const core::Event fork = core::make_event(), join = core::make_event();
  std::string order;
  const auto step = [&](const core::Stream& stream, char name) {
    enqueue(stream.get(), {WorkKind::kernel, [&order, name] { order += name; }});
  };
  const CapturedGraph graph(stream_, [&] {
    step(stream_, 'a');
    check_cuda(cudaEventRecord(fork.get(), stream_.get()), "fork");
    step(stream_, 'b');
    check_cuda(cudaStreamWaitEvent(side.get(), fork.get(), 0), "fork");
    step(side, 's');
    check_cuda(cudaEventRecord(join.get(), side.get()), "join");
    step(stream_, 'c');
    check_cuda(cudaStreamWaitEvent(stream_.get(), join.get(), 0), "join");
    step(stream_, 'd');
  });
  const auto executed = [&](ForkOrder fork_order) {
    set_fork_order(fork_order);
    order.clear();
    graph.launch(stream_);
    EXPECT_EQ(order, "");
    check_cuda(cudaStreamSynchronize(stream_.get()), "launch");
    return order;
  };
  EXPECT_EQ(executed(ForkOrder::early), "asbcd");
  EXPECT_EQ(executed(ForkOrder::late), "abcsd");
}

TEST_F(SimulatedCounters, IgnoredWaitHasNoEffect) {
  const core::Stream side = core::make_stream();
  const core::Event done = core::make_event();
  std::string order;
  const auto step = [&](const core::Stream& stream, char name) {
    enqueue(stream.get(), {WorkKind::kernel, [&order, name] { order += name; }});
  };
  for (const int ignored : {0, 2}) {
    ignore_wait(ignored);
    for (const char name : {'1', '2'}) {
      step(side, name);
      check_cuda(cudaEventRecord(done.get(), side.get()), "an event");
      check_cuda(cudaStreamWaitEvent(stream_.get(), done.get(), 0), "a wait");
      step(stream_, 'm');
    }
    EXPECT_EQ(waits(), 2);
    check_cuda(cudaStreamSynchronize(stream_.get()), "a stream");
    check_cuda(cudaStreamSynchronize(side.get()), "a stream");
    order += ' ';
  }
  ignore_wait(0);
  EXPECT_EQ(order, "1m2m 1mm2 ");
}

}  // namespace
}  // namespace lockstep::simulated_gpu
