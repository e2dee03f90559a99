#include "backend.hpp"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "lockstep/core/error.hpp"
#include "onednn.hpp"
#include "plan.hpp"

namespace lockstep::backend::cpu {

namespace {

template <class Work>
double seconds_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

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

Ceilings CpuBackend::ceilings(core::Precision) const {
  constexpr dnnl_dim_t size = 1024;
  constexpr std::size_t copy_bytes = std::size_t{128} << 20;
  constexpr int runs = 5;
  omp_set_num_threads(threads_);
  const core::Buffer a(size * size * sizeof(float)), b(a.bytes()), c(a.bytes());
  const core::Buffer from(copy_bytes), to(copy_bytes);
  const std::size_t part = copy_bytes / static_cast<std::size_t>(threads_) / 64 * 64;
  double product = 1e9, copy = 1e9;
  for (int run = 0; run < runs; ++run) {
    product = std::min(product, seconds_of([&] {
                         dnnl_sgemm('N', 'N', size, size, size, 1, a.as<float>().data(), size,
                                    b.as<float>().data(), size, 0, c.as<float>().data(), size);
                       }));
    copy = std::min(copy, seconds_of([&] {
#pragma omp parallel for num_threads(threads_)
                      for (int thread = 0; thread < threads_; ++thread) {
                        const std::size_t at = static_cast<std::size_t>(thread) * part;
                        std::memcpy(to.data() + at, from.data() + at, part);
                      }
                    }));
  }
  return {
      .flops_per_second = 2.0 * size * size * size / product,
      .bytes_per_second = 2.0 * static_cast<double>(part) * static_cast<double>(threads_) / copy};
}

std::unique_ptr<Plan> CpuBackend::compile(const graph::Graph& graph, ModelState& state,
                                          const PlanOptions& options) const {
  return std::make_unique<CpuPlan>(graph, state, options, threads_, chooser_);
}

MemoryUse CpuBackend::memory(const graph::Graph& graph, const PlanOptions& options) const {
  CpuOperations operations(graph, options, threads_, chooser_);
  return memory_of(Blueprint(operations), graph);
}

std::vector<OperationChoice> CpuBackend::choices(const graph::Graph& graph,
                                                 const PlanOptions& options) const {
  CpuOperations operations(graph, options, threads_, chooser_);
  return Blueprint(operations).choices();
}

}  // namespace lockstep::backend::cpu
