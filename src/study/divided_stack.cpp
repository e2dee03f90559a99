// SPDX-License-Identifier: BSD-3-Clause
#include "divided_stack.hpp"

#include <fmt/format.h>

#include <string>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/process/allocation_limit.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"
#include "lockstep/train/weights.hpp"

namespace lockstep::study {

namespace {

std::vector<graph::Graph> divide(const graph::Graph& stack, std::int64_t depth, int stages) {
  std::vector<std::string> firsts;
  for (int stage = 1; stage < stages; ++stage)
    firsts.push_back(fmt::format("layer.{}", (stage * depth + stages - 1) / stages));
  return stack.cut_before(firsts);
}

}  // namespace

DividedStack::DividedStack(const train::Config& config, const graph::Layer& layer,
                           std::int64_t depth, const backend::Backend& backend,
                           comm::Communicator& world)
    : config_(config),
      backend_(backend),
      world_(world),
      options_(train::training_options(config, {}, nullptr, 0, 1)),
      stack_(graph::stack_layers(layer, depth)),
      pipeline_{.stage = world.rank(),
                .network = stack_,
                .graphs = divide(stack_, depth, world.size()),
                .stages = nullptr,
                .replicas = nullptr} {}

std::uint64_t DividedStack::estimate() const {
  const backend::MemoryUse part = backend_.least_memory(pipeline_.graph(), options_);
  return train::pipeline_memory(pipeline_, part, options_, backend_.device()).total();
}

void DividedStack::prepare(std::optional<std::uint64_t> limit) {
  pipeline_.stages = world_.split(0, world_.rank());
  train::together(world_, [&] {
    std::optional<core::AllocationLimit> allocations;
    if (limit) allocations.emplace(*limit);
    const graph::Graph& part = pipeline_.graph();
    state_.emplace(backend_.make_state(part));
    train::initialise(part, config_.seed, *state_);
    backend_.store(*state_);
    plan_ =
        train::make_pipeline_plan(pipeline_, backend_, *state_, options_, train::WarmUp::always);
    const std::int64_t image = pipeline_.is_first() ? part.image().elements() : 0;
    images_.resize(static_cast<std::size_t>(options_.batch * image));
    labels_.resize(static_cast<std::size_t>(options_.batch));
    core::Random random(config_.seed, core::RandomStream::test);
    for (auto& byte : images_) byte = static_cast<std::uint8_t>(random.below(256));
  });
}

double DividedStack::forward() {
  world_.barrier();
  const double begin = core::host_seconds();
  plan_->upload(images_, labels_);
  plan_->forward();
  return comm::maximum(world_, core::host_seconds() - begin);
}

void DividedStack::backward() {
  core::NoGradientListener no_listener;
  plan_->backward(no_listener);
}

}  // namespace lockstep::study
