// SPDX-License-Identifier: BSD-3-Clause
// Violates the contracts of executions of cuDNN that the simulated GPU checks, and tests that the
// violation is found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cuda/dnn/operation_graph.hpp"
#include "lockstep/core/cuda.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::simulated_gpu {
namespace {

using backend::cuda::Binding;
using backend::cuda::OperationGraph;
using backend::cuda::Target;
using core::check_cuda;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A cuDNN graph that adds two vectors, and its memory.
class DnnContracts : public testing::Test {
 protected:
  DnnContracts() {
    const auto x = graph_.input(1, extents, core::DataType::float32);
    graph_.output(graph_.pointwise(backend::cuda::Pointwise::add, x, x), 2,
                  core::DataType::float32);
    graph_.seal();
    graph_.find_engines(backend::cuda::Heuristics::best_first);
    EXPECT_FALSE(graph_.build(0, 1 << 20));
    workspace_ = core::device_buffer(graph_.workspace_bytes(0), "a workspace");
  }
  std::vector<std::string> run(void* x, void* y, void* workspace) {
    const std::vector<Binding> bindings{{1, x}, {2, y}};
    return record_violations([&] { EXPECT_FALSE(graph_.run(0, bindings, workspace)); });
  }
  static constexpr backend::cuda::Extents extents{1, 4, 1, 1};
  Target target_ = Target::device(0);
  OperationGraph graph_{target_, core::DataType::float32};
  core::Buffer x_ = core::device_buffer(64, "a test"), y_ = core::device_buffer(16, "a test");
  core::Buffer workspace_, host_ = core::pinned_buffer(64);
};

TEST_F(DnnContracts, EngineWritesItsWholeWorkspace) {
  check_cuda(cudaMemset(x_.data(), 0, x_.bytes()), "clearing");
  EXPECT_THAT(run(x_.data(), y_.data(), workspace_.data()), IsEmpty());
  check_cuda(cudaStreamSynchronize(target_.stream()), "a graph");
  for (const std::byte byte : workspace_.as<std::byte>()) EXPECT_EQ(byte, std::byte{0xff});
  EXPECT_EQ(y_.as<float>()[3], 0);
}

TEST_F(DnnContracts, SmallOrMisalignedMemoryIsFound) {
  const core::Buffer small = core::device_buffer(workspace_.bytes() - 1, "a small workspace");
  const core::Buffer large = core::device_buffer(workspace_.bytes() + 256, "a large workspace");
  EXPECT_THAT(run(x_.data(), y_.data(), small.data()),
              ElementsAre(HasSubstr("access outside of an allocation")));
  EXPECT_THAT(run(x_.data(), y_.data(), large.data() + 16),
              ElementsAre(HasSubstr("alignment of memory: cuDNN needs a multiple of 256")));
  EXPECT_THAT(run(x_.data() + 8, y_.data(), workspace_.data()),
              ElementsAre(HasSubstr("alignment of memory: cuDNN needs a multiple of 16")));
  EXPECT_THAT(run(x_.data() + 64 - 8, y_.data(), workspace_.data()),
              Contains(HasSubstr("access outside of an allocation")));
  EXPECT_THAT(run(x_.data(), host_.data(), workspace_.data()),
              ElementsAre(HasSubstr("access outside of an allocation")));
}

TEST_F(DnnContracts, MissingWorkspaceIsFound) {
  const std::vector<Binding> bindings{{1, x_.data()}, {2, y_.data()}};
  // New versions of cudnn-frontend find it before cuDNN.
  record_violations([&] {
    EXPECT_THAT(graph_.run(0, bindings, nullptr).value_or(""),
                testing::AnyOf(HasSubstr("received null"), HasSubstr("no workspace")));
  });
}

TEST_F(DnnContracts, PlanDestroyedBeforeItsWorkIsFound) {
  auto restored = graph_.restored(graph_.serialise(0), "eng0");
  const std::vector<Binding> bindings{{1, x_.data()}, {2, y_.data()}};
  EXPECT_FALSE(restored->run(0, bindings, workspace_.data()));
  restored.reset();
  EXPECT_THAT(record_violations([&] { cudaStreamSynchronize(target_.stream()); }),
              ElementsAre(HasSubstr("execution plan of cuDNN")));
}

TEST_F(DnnContracts, RestoredEngineComputesTheSame) {
  const auto bytes = graph_.serialise(0);
  const auto restored = graph_.restored(bytes, "eng0");
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(restored->workspace_bytes(0), graph_.workspace_bytes(0));
  const float one[] = {1, 2, 3, 4};
  check_cuda(cudaMemcpy(x_.data(), one, sizeof one, cudaMemcpyHostToDevice), "copying");
  EXPECT_FALSE(
      restored->run(0, std::vector<Binding>{{2, y_.data()}, {1, x_.data()}}, workspace_.data()));
  check_cuda(cudaStreamSynchronize(target_.stream()), "a graph");
  EXPECT_EQ(y_.as<float>()[3], 8);
  std::vector<std::uint8_t> damaged = bytes;
  damaged.resize(bytes.size() / 2);
  EXPECT_EQ(graph_.restored(damaged, "eng0"), nullptr);
}

}  // namespace
}  // namespace lockstep::simulated_gpu
