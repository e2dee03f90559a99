// SPDX-License-Identifier: BSD-3-Clause
// Tests that a failed allocation in oneDNN is an error of the class "out of memory" in every
// function that creates primitives.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.h>

#include "backend/support.hpp"
#include "expect_error.hpp"
#include "lockstep/core/error.hpp"

namespace {
bool creation_fails = false;
}

/// Replaces the function of oneDNN that creates all primitives.
extern "C" dnnl_status_t dnnl_primitive_create(dnnl_primitive_t* primitive,
                                               const_dnnl_primitive_desc_t description) {
  if (creation_fails) return dnnl_out_of_memory;
  using Create = dnnl_status_t (*)(dnnl_primitive_t*, const_dnnl_primitive_desc_t);
  return reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "dnnl_primitive_create"))(primitive,
                                                                               description);
}

namespace lockstep::backend::test {
namespace {

graph::Graph convolution_graph() {
  graph::Graph graph("convolution");
  auto node = graph.input({3, 8, 8});
  node = graph.convolution("a", node, 16, {.kernel = 3, .stride = 1, .padding = 1});
  node = graph.global_average_pool("pool", node);
  node = graph.linear("linear", node, 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  return graph;
}

class OnednnMemoryTest : public testing::Test {
 protected:
  template <class Work>
  void expect_out_of_memory(Work work) {
    EXPECT_NO_THROW(work());
    creation_fails = true;
    expect_error(core::ExitStatus::out_of_memory, {}, work);
    creation_fails = false;
  }

  const graph::Graph graph_ = convolution_graph();
  const PlanOptions options_{.batch = 2, .convolution_algorithm = ConvolutionAlgorithm::direct};
};

TEST_F(OnednnMemoryTest, CompilingReportsIt) {
  expect_out_of_memory([&] { Replica(DeviceKind::cpu, 1, graph_, options_); });
}

TEST_F(OnednnMemoryTest, EstimatingTheMemoryReportsIt) {
  expect_out_of_memory([&] { make_backend(DeviceKind::cpu, 1)->memory(graph_, options_); });
}

TEST_F(OnednnMemoryTest, ListingTheAlgorithmsReportsIt) {
  expect_out_of_memory([&] { make_backend(DeviceKind::cpu, 1)->choices(graph_, options_); });
}

}  // namespace
}  // namespace lockstep::backend::test
