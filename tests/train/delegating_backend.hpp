// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/backend/backend.hpp"

namespace lockstep::train::testing {

/// Base of backends that change one property of another backend.
class DelegatingBackend : public backend::Backend {
 public:
  explicit DelegatingBackend(std::unique_ptr<backend::Backend> inner) : inner_(std::move(inner)) {}

  const backend::Device& device() const override { return inner_->device(); }
  backend::ModelState make_state(const graph::Graph& graph, optim::Kind optimiser,
                                 core::Buffer gradients) const override {
    return inner_->make_state(graph, optimiser, std::move(gradients));
  }
  core::DataType gradient_type(core::DataType type) const override {
    return inner_->gradient_type(type);
  }
  core::GradientArray gradients(const backend::ModelState& state,
                                core::DataType type) const override {
    return inner_->gradients(state, type);
  }
  core::GradientArray parameters(const backend::ModelState& state) const override {
    return inner_->parameters(state);
  }
  std::uint64_t parameter_hash(const backend::ModelState& state) const override {
    return inner_->parameter_hash(state);
  }
  void fetch(backend::ModelState& state, backend::StatePart part) const override {
    inner_->fetch(state, part);
  }
  void store(const backend::ModelState& state, backend::StatePart part) const override {
    inner_->store(state, part);
  }
  std::unique_ptr<backend::Plan> compile(const graph::Graph& graph, backend::ModelState& state,
                                         const backend::PlanOptions& options) const override {
    return inner_->compile(graph, state, options);
  }
  backend::MemoryUse memory(const graph::Graph& graph,
                            const backend::PlanOptions& options) const override {
    return inner_->memory(graph, options);
  }
  std::vector<backend::OperationChoice> choices(
      const graph::Graph& graph, const backend::PlanOptions& options) const override {
    return inner_->choices(graph, options);
  }

  backend::MemoryUse least_memory(const graph::Graph& graph,
                                  const backend::PlanOptions& options) const override {
    return inner_->least_memory(graph, options);
  }
  std::unique_ptr<backend::GradientSums> make_gradient_sums(const backend::ModelState& state,
                                                            core::DataType type) const override {
    return inner_->make_gradient_sums(state, type);
  }
  core::Buffer host_buffer(std::size_t bytes) const override { return inner_->host_buffer(bytes); }
  backend::Ceilings ceilings(core::Precision precision) const override {
    return inner_->ceilings(precision);
  }

 protected:
  const backend::Backend& inner() const { return *inner_; }

 private:
  std::unique_ptr<backend::Backend> inner_;
};

}  // namespace lockstep::train::testing
