#pragma once

#include "device/device.hpp"
#include "device/sensors.hpp"
#include "dnn/dnn_graph.hpp"
#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::cuda {

/// A GPU, or the description of one that is not here, for which graphs can be planned and sized but
/// not run: cuDNN's convolutions and batch norms, our own kernels between them.
class CudaBackend final : public Backend {
 public:
  /// Throws `Error` (usage) where there is no GPU, no driver, or too old a one.
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
  std::unique_ptr<StepRunner> make_step_runner(Plan& plan) const override;
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
  mutable DnnPlanner planner_;              ///< remembers what it has planned
  std::unique_ptr<const Sensors> sensors_;  ///< null where the GPU is only described
};

}  // namespace lockstep::backend::cuda
