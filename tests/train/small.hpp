// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "buffer_values.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/graph/operations.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/trainer.hpp"

// A network and a configuration that are so small that a test of the whole trainer takes
// milliseconds. oneDNN has only slow reference code for some convolutions whose channels are no
// multiple of 16.
namespace lockstep::train::testing {

enum class Norm { without, with_batch_norm };

using test::copy;

inline graph::Graph small_graph(Norm norm) {
  graph::Graph graph("small");
  auto node = graph.input({3, 32, 32});
  for (const auto& [name, channels] : {std::pair{"1", 16}, std::pair{"2", 16}}) {
    node = graph.convolution(std::string("conv") + name, node, channels,
                             {.kernel = 3, .stride = 2, .padding = 1, .has_bias = true});
    if (norm == Norm::with_batch_norm) node = graph.batch_norm(std::string("bn") + name, node);
    node = graph.relu(std::string("relu") + name, node);
  }
  node = graph.global_average_pool("pool", node);
  node = graph.linear("linear", node, 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  return graph;
}

/// Returns a network with dropout of a feature map and of a vector.
inline graph::Graph small_dropout_graph() {
  graph::Graph graph("small-dropout");
  auto node = graph.convolution("conv", graph.input({3, 32, 32}), 8, {.kernel = 3, .stride = 4});
  node = graph.append("drop1", graph::Dropout{.probability = 0.2f, .layer = 1}, {node});
  node = graph.relu("relu", graph.linear("hidden", graph.flatten("flatten", node), 16));
  node = graph.append("drop2", graph::Dropout{.probability = 0.5f, .layer = 2}, {node});
  node = graph.linear("linear", node, 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  return graph;
}

inline data::TrainingData small_data() {
  return data::load({.source = "synthetic:64", .train_samples = 64, .test_samples = 11, .seed = 3});
}

/// Delays each step of this rank.
class DelayedSteps final : public core::ProgressMonitor {
 public:
  explicit DelayedSteps(std::chrono::milliseconds delay) : delay_(delay) {}
  void begin(core::Activity, std::int64_t step) override {
    if (step > std::exchange(step_, step)) std::this_thread::sleep_for(delay_);
  }
  void advance() noexcept override {}

 private:
  std::chrono::milliseconds delay_;
  std::int64_t step_ = 0;
};

/// Returns a configuration with 16 images per step over all ranks and 4 steps per epoch.
inline Config small_config(int ranks) {
  Config config;
  config.data.source = "synthetic:64";
  config.global_batch = 16;
  config.epochs = 2;
  config.data.loader_threads = 1;
  config.device.threads = 1;
  config.bucket_mib = 4.0 / 1024;  // several buckets even for this small network
  // The fastest algorithm differs between runs and determines the order of summation, but tests
  // compare the bits of several runs.
  if (ranks > 1) config.reducer.algorithm = comm::AllReduceAlgorithm::direct;
  return resolve(config, ranks);
}

/// Records the steps and epochs, of which only rank 0 is notified.
struct Witness : TrainingListener {
  std::vector<CompletedStep> steps;
  std::vector<record::EpochRecord> epochs;
  void step_end(const CompletedStep& step, const StepResult&) override { steps.push_back(step); }
  void epoch_end(record::EpochRecord& epoch) override { epochs.push_back(epoch); }
};

/// Returns the norm of the difference, relative to the norm of `expected`.
inline double relative_difference(std::span<const float> actual, std::span<const float> expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = double(actual[i]) - double(expected[i]);
    difference += off * off;
    norm += double(expected[i]) * double(expected[i]);
  }
  return std::sqrt(difference / norm);
}

/// A path for a temporary directory, the same on all ranks. The destructor deletes the directory.
/// Collective: all ranks must construct and destroy it.
class SharedDirectory {
 public:
  explicit SharedDirectory(comm::Communicator& communicator)
      : communicator_(communicator),
        path_(std::filesystem::temp_directory_path() /
              ("lockstep-test-" + communicator.all_gather(std::to_string(::getpid())).front())) {}
  ~SharedDirectory() {
    communicator_.barrier();
    std::error_code ignored;
    if (communicator_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  comm::Communicator& communicator_;
  std::filesystem::path path_;
};

/// Raises SIGTERM when `activity` begins for the first time, or for the first time in step `step`.
class Signaller final : public core::ProgressMonitor {
 public:
  explicit Signaller(core::Activity activity, std::int64_t step = 0)
      : activity_(activity), step_(step) {}
  void begin(core::Activity activity, std::int64_t step) noexcept override {
    if (has_raised_ || (step_ > 0 && step != step_) || activity != activity_) return;
    has_raised_ = true;
    std::raise(SIGTERM);
  }
  void advance() noexcept override {}

 private:
  core::Activity activity_;
  std::int64_t step_;
  bool has_raised_ = false;
};

}  // namespace lockstep::train::testing
