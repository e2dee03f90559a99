// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/sensors.hpp"
#include "dnn/dnn_graph.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

/// An NVIDIA GPU of this machine, or the description of a target GPU that is not present.
class Gpu final : public Device {
 public:
  /// Throws `Error` (usage) if there is no GPU or driver, if the GPU or driver is too old, or if
  /// `options.target_gpu` names a GPU without a description.
  explicit Gpu(const DeviceOptions& options);

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override;
  std::string library_versions() const override;
  core::DeviceQueue queue() const override;
  std::optional<std::uint64_t> available_memory() const override;
  std::optional<DeviceIdentity> identity() const override;
  std::string description() const override;
  SensorReading read_sensors() const override;

  const Target& target() const { return target_; }
  /// Throws `Error` (usage) if the GPU is not present. `what`: the action that needs it.
  void require_presence(std::string_view what) const;

 private:
  Target target_;
  std::unique_ptr<const Sensors> sensors_;  ///< null if the GPU is not present
};

/// Backend for an NVIDIA GPU. Convolutions run as cuDNN graphs, batch norms as cuDNN graphs or
/// kernels of this program, all other operations as kernels of this program. If the backend is
/// created from a device description (offline planning for a target GPU that is not present), it
/// can plan graphs and report their memory, but not run them.
class CudaBackend final : public Backend {
 public:
  /// Throws `Error` as `Gpu` does.
  explicit CudaBackend(const DeviceOptions& options);

  const Device& device() const override { return gpu_; }
  using Backend::make_state;
  ModelState make_state(const graph::Graph& graph, optim::Kind optimiser) const override;
  ModelState make_state(const graph::Graph& graph, optim::Kind optimiser,
                        core::Buffer gradients) const override;
  core::DataType gradient_type(core::DataType wire) const override { return wire; }
  core::GradientArray gradients(const ModelState& state, core::DataType type) const override;
  core::GradientArray parameters(const ModelState& state) const override;
  std::uint64_t parameter_hash(const ModelState& state) const override;
  using Backend::fetch;
  using Backend::store;
  void fetch(ModelState& state, StatePart part) const override;
  void store(const ModelState& state, StatePart part) const override;
  std::unique_ptr<GradientSums> make_gradient_sums(const ModelState& state,
                                                   core::DataType type) const override;
  core::Buffer host_buffer(std::size_t bytes) const override { return core::pinned_buffer(bytes); }
  std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options) const override;
  Ceilings ceilings(core::Precision precision) const override;
  MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const override;
  MemoryUse least_memory(const graph::Graph& graph, const PlanOptions& options) const override;
  std::vector<OperationChoice> choices(const graph::Graph& graph,
                                       const PlanOptions& options) const override;
  std::size_t cut_off_selections() const override { return planner_.cut_off().size(); }

 private:
  PlanOptions with_progress(PlanOptions options) const;
  void build_engines(const graph::Graph& graph, const PlanOptions& options) const;
  void end_selection() const;

  const Target& target() const { return gpu_.target(); }

  Gpu gpu_;
  mutable DnnPlanner planner_;  ///< caches planned graphs
  mutable std::size_t reported_cut_off_ = 0;
};

}  // namespace lockstep::backend::cuda
