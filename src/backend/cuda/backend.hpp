#pragma once

#include "device/device.hpp"
#include "device/sensors.hpp"
#include "dnn/dnn_graph.hpp"
#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::cuda {

/// Backend for an NVIDIA GPU. Convolutions run as cuDNN graphs, batch norms as cuDNN graphs or
/// kernels of this program, all other operations as kernels of this program. If the backend is
/// created from a device description (offline planning for a target GPU that is not present), it
/// can plan graphs and report their memory, but not run them.
class CudaBackend final : public Backend {
 public:
  /// Throws `Error` (usage) if there is no GPU or driver, if the GPU or driver is too old, or if
  /// `options.target_gpu` names a GPU without a description.
  explicit CudaBackend(const DeviceOptions& options);

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string device_name() const override;
  std::string library_versions() const override;
  ModelState make_state(const graph::Graph& graph) const override;
  ModelState make_state(const graph::Graph& graph, core::Buffer gradients) const override;
  core::DataType gradient_type(core::DataType wire) const override { return wire; }
  core::GradientArray gradients(const ModelState& state, core::DataType type) const override;
  using Backend::fetch;
  using Backend::store;
  void fetch(ModelState& state, StatePart part) const override;
  void store(const ModelState& state, StatePart part) const override;
  core::DeviceQueue queue() const override;
  std::unique_ptr<Plan> compile(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options) const override;
  Ceilings ceilings(core::Precision precision) const override;
  MemoryUse memory(const graph::Graph& graph, const PlanOptions& options) const override;
  std::vector<OperationChoice> choices(const graph::Graph& graph,
                                       const PlanOptions& options) const override;
  std::optional<std::uint64_t> memory_of_its_own() const override;
  std::optional<DeviceIdentity> identity() const override;
  SensorReading read_sensors() const override;
  std::string description() const override;

 private:
  void require_presence(std::string_view what) const;
  PlanOptions with_progress(PlanOptions options) const;

  Target target_;
  mutable DnnPlanner planner_;              ///< caches planned graphs
  std::unique_ptr<const Sensors> sensors_;  ///< null if no GPU is present (offline planning)
};

}  // namespace lockstep::backend::cuda
