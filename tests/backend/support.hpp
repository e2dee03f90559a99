#pragma once

// What the tests of all backends share: small networks of odd sizes, random batches, replicas.

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

namespace lockstep::backend::test {

struct Batch {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
};
Batch random_batch(const graph::Graph& graph, std::int64_t images, std::uint64_t seed);

/// Images [first, first + count) of a batch.
Batch part(const graph::Graph& graph, const Batch& batch, std::int64_t first, std::int64_t count);

/// A network on a device: random parameters and running statistics (batch norms away from 1 and 0),
/// the same for the same graph and seed on every device, and a plan.
class Replica {
 public:
  Replica(DeviceKind device, int threads, const graph::Graph& graph, const PlanOptions& options,
          std::uint64_t seed = 1);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  void upload(const Batch& batch) { plan->upload(batch.images, batch.labels); }
  /// Upload, forward, backward.
  void step(const Batch& batch);

  std::span<float> parameters() { return state.parameters.as<float>(); }
  std::span<float> gradients() { return state.gradients.as<float>(); }
  std::span<float> statistics() { return state.statistics.as<float>(); }

  std::unique_ptr<Backend> backend;
  ModelState state;
  std::unique_ptr<Plan> plan;
};

/// Empty where there is such a device, else why not.
std::string why_not(DeviceKind device);

/// For the first line of a test on a device that may not be there: skips it, or, where the
/// environment's LOCKSTEP_REQUIRE_GPU is 1, fails.
#define REQUIRE_DEVICE(device)                                                      \
  if (const std::string reason = why_not(device); !reason.empty()) {                \
    const char* const required = std::getenv("LOCKSTEP_REQUIRE_GPU");               \
    if (required != nullptr && std::string_view(required) == "1") FAIL() << reason; \
    GTEST_SKIP() << reason;                                                         \
  }

/// Hears and forgets.
class NoListener : public core::GradientListener {
 public:
  void filled_to(std::size_t) override {}
};

/// A network around one operation or pattern. `smooth`: no ReLU or max-pool, whose gradient jumps
/// where rounding moves a value over the kink.
struct Network {
  std::string name;
  graph::Graph graph;
  bool smooth = true;

  friend void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }
};

/// Every operation and the patterns that a backend may fuse, or must not.
std::vector<Network> small_networks();

/// |got - want| / scale, of Euclidean norms; scale 0 means |want|.
double relative_error(std::span<const float> got, std::span<const float> want, double scale = 0);
double norm(std::span<const float> values);

}  // namespace lockstep::backend::test
