// SPDX-License-Identifier: BSD-3-Clause
#include "stage_states.hpp"

#include "lockstep/train/weights.hpp"

namespace lockstep::train {

StageStates::StageStates(const Pipeline* pipeline, backend::ModelState& own)
    : pipeline_(pipeline), own_(own) {}

void StageStates::allocate() {
  if (pipeline_ == nullptr || !others_.empty()) return;
  for (int stage = 1; stage < pipeline_->count(); ++stage) {
    const graph::Graph& graph = pipeline_->graphs[static_cast<std::size_t>(stage)];
    const std::size_t bytes = graph.parameter_elements() * sizeof(float);
    others_.push_back({.parameters = core::Buffer(bytes),
                       .gradients = {},
                       .momentum = core::Buffer(bytes),
                       .statistics = core::Buffer(graph.statistic_elements() * sizeof(float)),
                       .second_moment = core::Buffer(own_.second_moment.bytes() > 0 ? bytes : 0)});
  }
}

void StageStates::gather() {
  if (pipeline_ == nullptr || pipeline_->replicas->rank() != 0) return;
  comm::Communicator& stages = *pipeline_->stages;
  if (!pipeline_->is_first()) {
    for (const auto buffer : buffers_of(own_)) stages.send(buffer, 0);
    return;
  }
  allocate();
  for (int stage = 1; stage < pipeline_->count(); ++stage) {
    for (const auto buffer : buffers_of(others_[static_cast<std::size_t>(stage) - 1]))
      stages.receive(buffer, stage);
  }
}

void StageStates::distribute() {
  if (pipeline_ == nullptr || pipeline_->replicas->rank() != 0) return;
  comm::Communicator& stages = *pipeline_->stages;
  if (!pipeline_->is_first()) {
    for (const auto buffer : buffers_of(own_)) stages.receive(buffer, 0);
    return;
  }
  allocate();
  for (int stage = 1; stage < pipeline_->count(); ++stage) {
    for (const auto buffer : buffers_of(others_[static_cast<std::size_t>(stage) - 1]))
      stages.send(buffer, stage);
  }
}

std::vector<record::Tensor> StageStates::weights() {
  allocate();
  std::vector<record::Tensor> tensors;
  for (std::size_t i = 0; i < others_.size(); ++i) {
    const auto more = weight_tensors(pipeline_->graphs[i + 1], others_[i]);
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  return tensors;
}

std::vector<record::Tensor> StageStates::all() {
  std::vector<record::Tensor> tensors = weights();
  for (std::size_t i = 0; i < others_.size(); ++i) {
    const auto more = optimiser_tensors(pipeline_->graphs[i + 1], others_[i]);
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  return tensors;
}

}  // namespace lockstep::train
