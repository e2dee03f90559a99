// SPDX-License-Identifier: BSD-3-Clause
// Measures single layers and stacks of layers on the simulated GPU.

#include "lockstep/study/layers.hpp"

#include <gtest/gtest.h>

#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/study/stack.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::study {
namespace {

std::unique_ptr<backend::Backend> gpu() {
  return backend::make_backend(
      {.kind = backend::DeviceKind::cuda, .threads = 1, .deterministic = true});
}

TEST(LayersOnSimulatedGpu, EveryKindIsMeasured) {
  const auto before = simulated_gpu::count_objects();
  simulated_gpu::reset_counters();
  {
    const auto device = gpu();
    for (const char* text : {"relu@2x8x8x8", "maxpool:k2@2x8x8x8", "conv:3-8,k3,p1@2x8x8",
                             "conv:8-8,k3,p1@2x8x8", "batchnorm@2x8x8x8", "linear:16-8@2"}) {
      const graph::Layer layer = graph::parse_layer(text);
      const record::LayerRow row =
          measure_layer({.batch = layer.batch}, layer, *device, {}, std::uint64_t{1} << 40);
      EXPECT_EQ(row.status, "complete") << text;
      EXPECT_EQ(row.forward_seconds.size(), std::size_t{layer_repeats}) << text;
      EXPECT_EQ(row.backward_seconds.size(), std::size_t{layer_repeats}) << text;
      EXPECT_GT(row.backward_flops, 0) << text;
    }
  }
  EXPECT_GT(simulated_gpu::counters().graph_launches, 0) << "as in a training";
  EXPECT_EQ(simulated_gpu::count_objects(), before) << "everything is released";
}

TEST(LayersOnSimulatedGpu, MemoryLimitEndsTheStack) {
  const auto device = gpu();
  const graph::Layer layer = graph::parse_layer("linear:64-64@2");
  const std::uint64_t limit = std::uint64_t{1} << 20;
  int argc = 0;
  char** argv = nullptr;
  const comm::MpiSession session(argc, argv);
  const auto world = comm::make_communicator(session);
  const auto rows =
      measure_stack({.batch = layer.batch}, layer, *device, *world,
                    {.bytes = limit, .source = "test", .is_given = true}, [](std::int64_t) {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].status, "complete");
  EXPECT_EQ(rows[0].stages, world->size());
  EXPECT_GT(rows[0].depth, 5 * world->size());
  EXPECT_EQ(rows[0].depth, rows[0].estimated_depth);
  EXPECT_LE(rows[0].estimated_bytes, limit);
  EXPECT_EQ(rows[0].forward_seconds.size(), std::size_t{layer_repeats});
  EXPECT_EQ(rows[1].status, "out_of_memory");
  EXPECT_GT(rows[1].estimated_bytes, limit);
}

}  // namespace
}  // namespace lockstep::study
