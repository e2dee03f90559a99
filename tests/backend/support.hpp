// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Helper functions for the tests of all backends: small networks of unusual sizes, random batches,
// replicas.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::backend::test {

struct Batch {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
};
Batch random_batch(const graph::Graph& graph, std::int64_t images, std::uint64_t seed);

/// Returns images [first, first + count) of a batch.
Batch part(const graph::Graph& graph, const Batch& batch, std::int64_t first, std::int64_t count);

/// Normalisation of CIFAR-10: random images then have a mean of about 0 and a deviation of about 1.
inline constexpr core::Normalisation cifar10_normalisation{
    .mean = {0.4914f, 0.4822f, 0.4465f}, .standard_deviation = {0.2023f, 0.1994f, 0.2010f}};

/// Settings of the tests of GPUs by environment variables, which shorten them.
struct TestSettings {
  EngineSelection engines = EngineSelection::timed;  ///< LOCKSTEP_TEST_ENGINES (quick, timed)
  std::int64_t batch = 0;  ///< LOCKSTEP_TEST_BATCH: the only batch size; 0: all
};

/// Returns the settings of the environment. Throws `std::invalid_argument` if a value is invalid.
TestSettings test_settings();

/// A network on a device, with a plan. Parameters and running statistics are random, including
/// those of batch norm, whose usual initial values are 1 and 0. They depend only on the graph and
/// the seed, so they are the same on every device.
class Replica {
 public:
  /// `timed`: algorithms may be chosen by timing; never on CPUs. If they are not, two replicas of a
  /// network round at the same places.
  enum class Algorithms { timed, fixed };

  Replica(DeviceKind device, int threads, const graph::Graph& graph, const PlanOptions& options,
          std::uint64_t seed = 1, Algorithms algorithms = Algorithms::timed);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  void upload(const Batch& batch) { plan->upload(batch.images, batch.labels); }
  /// Uploads the batch, computes the forward and the backward pass, and copies the state to the
  /// host.
  void step(const Batch& batch);

  std::span<float> parameters() { return state.parameters.as<float>(); }
  std::span<float> gradients() { return state.gradients.as<float>(); }
  std::span<float> statistics() { return state.statistics.as<float>(); }

  std::unique_ptr<Backend> backend;
  ModelState state;
  std::unique_ptr<Plan> plan;
};

/// Returns the implementations that the plan uses, one line per phase of a node, for the messages
/// of failed comparisons.
std::string describe_choices(const graph::Graph& graph, const Plan& plan);

/// Returns why the device cannot be used; empty if it can.
std::string why_not(DeviceKind device);

/// Returns why the device does not support an operation of the network; empty if it supports all.
std::string why_unsupported(DeviceKind device, const graph::Graph& graph);

/// Skips the test if the device is not present; fails instead if the environment variable
/// LOCKSTEP_REQUIRE_GPU is 1. To be used as the first statement of a test.
#define REQUIRE_DEVICE(device)                                                      \
  if (const std::string reason = why_not(device); !reason.empty()) {                \
    const char* const required = std::getenv("LOCKSTEP_REQUIRE_GPU");               \
    if (required != nullptr && std::string_view(required) == "1") FAIL() << reason; \
    GTEST_SKIP() << reason;                                                         \
  }

/// A network that contains one operation or pattern to be tested. `smooth`: it contains no ReLU and
/// no max-pool, whose gradients are discontinuous: rounding can move a value across the kink.
struct Network {
  std::string name;
  graph::Graph graph;
  bool smooth = true;

  friend void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }
};

/// Returns networks for every operation, and for the patterns that a backend may or must not fuse.
std::vector<Network> small_networks();

/// Returns |got - want| / scale in the Euclidean norm. If `scale` is 0, |want| is used instead.
double relative_error(std::span<const float> got, std::span<const float> want, double scale = 0);
/// Returns the Euclidean norm.
double norm(std::span<const float> values);

}  // namespace lockstep::backend::test
