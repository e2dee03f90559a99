// Compares training with PyTorch, from the same weights and on the same images: the losses of 20
// steps and the gradients of one pair of images.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "golden.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/initialise.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/optim/update.hpp"

namespace lockstep {
namespace {

struct Golden {
  std::size_t pair = 0;  ///< the gradients are those of images 2 * pair and 2 * pair + 1
  std::vector<double> losses;
  struct Gradient {
    double norm = 0;
    std::vector<double> samples;
  };
  std::map<std::string, Gradient> gradients;
};

Golden read_golden() {
  Golden golden;
  std::ifstream file(GOLDEN_FILE);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind >> name;
    if (kind == "pair") {
      golden.pair = std::stoul(name);
    } else if (kind == "loss") {
      words >> golden.losses.emplace_back();
    } else {
      Golden::Gradient& gradient = golden.gradients[name];
      words >> gradient.norm;
      for (double value = 0; words >> value;) gradient.samples.push_back(value);
    }
  }
  return golden;
}

class GoldenRun {
 public:
  explicit GoldenRun(std::size_t batch)
      : batch_(batch),
        graph_(graph::make_model("resnet18-cifar", {})),
        backend_(backend::make_backend(backend::DeviceKind::cpu, 1)),
        state_(backend_->make_state(graph_)),
        set_(golden::images()) {
    graph::initialise_parameters(graph_, golden::seed, state_.parameters.as<float>());
    graph::initialise_statistics(graph_, state_.statistics.as<float>());
    plan_ = backend_->compile(
        graph_, state_,
        {.batch = static_cast<std::int64_t>(batch), .normalisation = set_->info().normalisation});
  }

  /// Runs the forward and backward pass of batch number `step` of the data set. Returns the mean
  /// loss of the batch.
  double gradients_of(std::size_t step) {
    const std::size_t bytes = batch_ * set_->image_bytes();
    plan_->upload(set_->pixels().subspan(step * bytes, bytes),
                  set_->labels().subspan(step * batch_, batch_));
    plan_->forward();
    core::NoGradientListener listener;
    plan_->backward(listener);
    return plan_->result().loss_sum / static_cast<double>(batch_);
  }

  void update() {
    optim::update({.learning_rate = golden::learning_rate,
                   .momentum = golden::momentum,
                   .weight_decay = golden::weight_decay},
                  state_.parameters.as<float>(), state_.gradients.as<float>(),
                  state_.momentum.as<float>());
  }

  const graph::Graph& graph() const { return graph_; }
  std::span<const float> gradient(const graph::Parameter& parameter) const {
    return state_.gradients.as<float>().subspan(parameter.offset, parameter.elements);
  }

 private:
  std::size_t batch_;
  graph::Graph graph_;
  std::unique_ptr<backend::Backend> backend_;
  backend::ModelState state_;
  std::unique_ptr<const data::Dataset> set_;
  std::unique_ptr<backend::Plan> plan_;
};

TEST(AgainstPyTorch, GradientsOfOneBatch) {
  // The tolerance is 1e-4 of the norm of each tensor: float32 sums in some forty layers, with an
  // error of about 1e-6 each, amplified by batch norm. The difference is computed at up to 64
  // positions and scaled to the whole tensor.
  const Golden golden = read_golden();
  GoldenRun run(2);
  run.gradients_of(golden.pair);
  ASSERT_EQ(golden.gradients.size(), run.graph().parameters().size());
  for (const graph::Parameter& parameter : run.graph().parameters()) {
    const auto& expected = golden.gradients.at(parameter.name);
    const auto gradient = run.gradient(parameter);
    const double squares = std::transform_reduce(
        gradient.begin(), gradient.end(), 0.0, std::plus<>(),
        [](float g) { return static_cast<double>(g) * static_cast<double>(g); });
    EXPECT_NEAR(std::sqrt(squares), expected.norm, 1e-4 * expected.norm) << parameter.name;
    const auto positions = golden::sampled_positions(gradient.size());
    ASSERT_EQ(positions.size(), expected.samples.size());
    double difference = 0;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      difference += std::pow(static_cast<double>(gradient[positions[i]]) - expected.samples[i], 2);
    }
    const double scale =
        static_cast<double>(gradient.size()) / static_cast<double>(positions.size());
    EXPECT_LT(std::sqrt(difference * scale), 1e-4 * expected.norm) << parameter.name;
  }
}

TEST(AgainstPyTorch, LossesOfTwentySteps) {
  // The relative tolerance is 1e-3 for the first ten steps. It is larger afterwards, because
  // training amplifies rounding errors.
  const Golden golden = read_golden();
  ASSERT_EQ(golden.losses.size(), golden::steps);
  GoldenRun run(golden::batch);
  for (std::size_t step = 0; step < golden::steps; ++step) {
    const double loss = run.gradients_of(step);
    run.update();
    EXPECT_NEAR(loss, golden.losses[step], (step < 10 ? 1e-3 : 5e-2) * golden.losses[step])
        << "step " << step;
  }
}

}  // namespace
}  // namespace lockstep
