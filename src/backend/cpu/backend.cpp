#include "backend.hpp"

#include <fstream>
#include <utility>

#include "lockstep/core/error.hpp"
#include "onednn.hpp"
#include "plan.hpp"

namespace lockstep::backend::cpu {

CpuBackend::CpuBackend(int threads) : threads_(threads) {
  core::check(threads >= 1, "a CPU replica has at least one thread");
}

std::string CpuBackend::device_name() const {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

std::string CpuBackend::library_versions() const { return onednn_version(); }

ModelState CpuBackend::make_state(const graph::Graph& graph, core::Buffer gradients) const {
  const std::size_t bytes = graph.parameter_elements() * sizeof(float);
  return {core::Buffer(bytes), std::move(gradients), core::Buffer(bytes),
          core::Buffer(graph.statistic_elements() * sizeof(float)), 0};
}

std::unique_ptr<Plan> CpuBackend::compile(const graph::Graph& graph, ModelState& state,
                                          const PlanOptions& options) const {
  return std::make_unique<CpuPlan>(graph, state, options, threads_, chooser_);
}

MemoryUse CpuBackend::memory(const graph::Graph& graph, const PlanOptions& options) const {
  return Blueprint(graph, options, threads_, chooser_).memory();
}

}  // namespace lockstep::backend::cpu
