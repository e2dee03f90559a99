// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of the backend alone: training steps of one replica on random images, without data
// loading and communication.
//
//   step_bench [--model M] [--batch B] [--precision fp32|bf16] [--conv-algorithm A]
//              [--threads T] [--steps S] [--rounds R] [--choices]
//
// Prints one JSON line per round: images/s, the mean duration of each phase in seconds, and the
// loss of the last step. With --rounds 0 it runs one round for every line on standard input, so
// that a driver (compare_pytorch.py) can alternate between this program and another one.

#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/optim/update.hpp"
#include "lockstep/record/run_records.hpp"

namespace {

using namespace lockstep;

/// As in the PyTorch programs that this program is compared with.
constexpr core::Normalisation cifar10_normalisation{
    .mean = {0.4914f, 0.4822f, 0.4465f}, .standard_deviation = {0.2023f, 0.1994f, 0.2010f}};

/// Measures the duration of each phase, in seconds, with one reading of the clock after each phase.
class StepTimer {
 public:
  void end(record::Phase phase) {
    const auto now = std::chrono::steady_clock::now();
    seconds_[static_cast<std::size_t>(phase)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  const record::PhaseSeconds& seconds() const { return seconds_; }

 private:
  record::PhaseSeconds seconds_{};
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

struct Options {
  std::string model = "resnet18-cifar", precision = "fp32", conv_algorithm = "auto";
  std::int64_t batch = 128;
  int threads = 1, steps = 3, rounds = 3;
  bool choices = false;
};

Options parse(int argc, char** argv) {
  namespace po = boost::program_options;
  Options o;
  po::options_description all("step_bench");
  all.add_options()("model", po::value(&o.model))("batch", po::value(&o.batch))(
      "precision", po::value(&o.precision))("conv-algorithm", po::value(&o.conv_algorithm))(
      "threads", po::value(&o.threads))("steps", po::value(&o.steps))(
      "rounds", po::value(&o.rounds))("choices", po::bool_switch(&o.choices));
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, all), values);
  po::notify(values);
  return o;
}

class Replica {
 public:
  explicit Replica(const Options& options)
      : options_(options),
        graph_(graph::make_model(options.model, {})),
        backend_(backend::make_backend(backend::DeviceKind::cpu, options.threads)),
        state_(backend_->make_state(graph_)),
        plan_(make_plan()),
        images_(static_cast<std::size_t>(options.batch * graph_.image().elements())),
        labels_(static_cast<std::size_t>(options.batch)) {
    core::Random random(1, core::RandomStream::test);
    for (auto& value : images_) value = static_cast<std::uint8_t>(random.below(256));
    for (auto& label : labels_)
      label = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(graph_.classes())));
  }

  void print_choices() const {
    for (const auto& choice : plan_->choices()) {
      std::printf("%-24s %-18s %s\n", graph_.node(choice.node).name.c_str(), choice.phase.c_str(),
                  choice.implementation.c_str());
    }
    std::printf("plan memory %.1f MB, state %.1f MB\n",
                static_cast<double>(plan_->memory().plan()) / 1e6,
                static_cast<double>(plan_->memory().state) / 1e6);
  }

  void step(StepTimer& timer) {
    using record::Phase;
    plan_->upload(images_, labels_);
    timer.end(Phase::upload);
    plan_->forward();
    timer.end(Phase::forward);
    plan_->backward(listener_);
    timer.end(Phase::backward);
    optim::update(
        optim::Kind::sgd, {.learning_rate = 0.01f},
        {state_.parameters.as<float>(), state_.gradients.as<float>(), state_.momentum.as<float>()});
    timer.end(Phase::update);
  }

  void round() {
    record::PhaseSeconds total{};
    for (int i = 0; i < options_.steps; ++i) {
      StepTimer timer;
      step(timer);
      for (std::size_t p = 0; p < total.size(); ++p) total[p] += timer.seconds()[p];
    }
    double seconds = 0;
    for (const double part : total) seconds += part;
    std::printf("{\"images_per_second\": %.3f",
                static_cast<double>(options_.batch * options_.steps) / seconds);
    for (std::size_t p = 0; p < total.size(); ++p) {
      std::printf(", \"%s_seconds\": %.6f", record::phase_names[p].data(),
                  total[p] / options_.steps);
    }
    std::printf(", \"loss\": %.6f}\n",
                plan_->result().loss_sum / static_cast<double>(options_.batch));
    std::fflush(stdout);
  }

 private:
  std::unique_ptr<backend::Plan> make_plan() {
    graph::initialise_parameters(graph_, 1, state_.parameters.as<float>());
    graph::initialise_statistics(graph_, state_.statistics.as<float>());
    return backend_->compile(
        graph_, state_,
        {.batch = options_.batch,
         .precision = options_.precision == "bf16" ? core::Precision::bf16 : core::Precision::fp32,
         .convolution_algorithm =
             core::value_of<backend::ConvolutionAlgorithm>(options_.conv_algorithm).value(),
         .normalisation = cifar10_normalisation});
  }

  Options options_;
  graph::Graph graph_;
  std::unique_ptr<backend::Backend> backend_;
  backend::ModelState state_;
  std::unique_ptr<backend::Plan> plan_;
  core::NoGradientListener listener_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  Replica replica(options);
  if (options.choices) replica.print_choices();
  StepTimer warm_up;
  replica.step(warm_up);
  std::printf("ready\n");
  std::fflush(stdout);
  for (int i = 0; i < options.rounds; ++i) replica.round();
  if (options.rounds == 0) {
    for (std::string line; std::getline(std::cin, line);) replica.round();
  }
}
