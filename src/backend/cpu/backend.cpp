// SPDX-License-Identifier: BSD-3-Clause
#include "backend.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/division.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"
#include "onednn.hpp"
#include "onednn_threads.hpp"
#include "plan.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Returns the shortest of several runs, after one run that is not timed.
double best_seconds(const std::function<void()>& work) {
  constexpr int runs = 5;
  work();
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const double begin = core::host_seconds();
    work();
    best = std::min(best, core::host_seconds() - begin);
  }
  return best;
}

/// Times a copy that is too large for the caches; returns bytes read plus bytes written per second.
double copy_rate(int threads) {
  constexpr std::size_t copy_bytes = std::size_t{128} << 20;
  const core::Buffer from = distributed_buffer(copy_bytes, threads),
                     to = distributed_buffer(copy_bytes, threads);
  const std::size_t part = copy_bytes / static_cast<std::size_t>(threads) / 64 * 64;
  const double seconds = best_seconds([&] {
#pragma omp parallel for num_threads(threads)
    for (int thread = 0; thread < threads; ++thread) {
      const std::size_t at = static_cast<std::size_t>(thread) * part;
      std::memcpy(to.data() + at, from.data() + at, part);
    }
  });
  return 2.0 * static_cast<double>(part) * static_cast<double>(threads) / seconds;
}

/// Calls `work`, which creates primitives of oneDNN. Throws `Error` (out of memory) if oneDNN
/// cannot allocate memory.
template <class Work>
auto with_memory_errors(const Work& work) {
  try {
    return work();
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_out_of_memory) throw;
    core::fail(core::ExitStatus::out_of_memory,
               "no memory left for the convolutions of oneDNN; use a smaller batch");
  }
}

}  // namespace

CpuBackend::CpuBackend(const DeviceOptions& options)
    : threads_(options.threads),
      progress_(options.progress),
      chooser_(options.deterministic ? ChoiceRule::fixed : ChoiceRule::fastest) {
  core::check(threads_ >= 1, "a CPU replica has at least one thread");
  require_openmp_threads();
  // The precision of a run does not depend on the variable ONEDNN_DEFAULT_FPMATH_MODE.
  dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict);
}

std::string CpuBackend::Processor::name() const {
  const std::string model = core::cpu_model();
  return model.empty() ? "CPU" : model;
}

PlanOptions CpuBackend::with_progress(PlanOptions options) const {
  options.progress = progress_;
  return options;
}

ModelState CpuBackend::make_state(const graph::Graph& graph, optim::Kind optimiser,
                                  core::Buffer gradients) const {
  const std::size_t bytes = graph.parameter_elements() * sizeof(float);
  ModelState state{distributed_buffer(bytes, threads_), std::move(gradients),
                   distributed_buffer(bytes, threads_),
                   core::Buffer(graph.statistic_elements() * sizeof(float))};
  if (optimiser == optim::Kind::adamw) state.second_moment = distributed_buffer(bytes, threads_);
  return state;
}

Ceilings CpuBackend::ceilings(core::Precision precision) const {
  omp_set_num_threads(threads_);
  Ceilings best{.flops_per_second = 0, .bytes_per_second = copy_rate(threads_), .product = {}};
  const auto try_product = [&](std::int64_t size, const char* type,
                               const std::function<void()>& product) {
    const double flops = 2.0 * static_cast<double>(size * size * size) / best_seconds(product);
    core::report_progress(progress_);
    if (flops <= best.flops_per_second) return;
    best.flops_per_second = flops;
    best.product = fmt::format("{0}x{0}x{0} in {1}", size, type);
  };
  for (const std::int64_t size : {512, 1024}) {
    // Timed for every precision, because Winograd's algorithm multiplies float32 values for
    // bfloat16 maps too.
    const std::size_t bytes = static_cast<std::size_t>(size * size) * sizeof(float);
    const core::Buffer a(bytes), b(bytes), c(bytes);
    for (const core::Buffer* matrix : {&a, &b}) std::ranges::fill(matrix->as<float>(), 0.01F);
    try_product(size, "fp32", [&] {
      dnnl_sgemm('N', 'N', size, size, size, 1, a.as<float>().data(), size, b.as<float>().data(),
                 size, 0, c.as<float>().data(), size);
    });
    if (precision != core::Precision::bf16) continue;
    if (const auto product = make_bfloat16_product(size)) try_product(size, "bf16", product);
  }
  return best;
}

std::unique_ptr<Plan> CpuBackend::compile(const graph::Graph& graph, ModelState& state,
                                          const PlanOptions& options) const {
  return with_memory_errors(
      [&] { return make_plan(graph, state, with_progress(options), threads_, chooser_); });
}

MemoryUse CpuBackend::memory(const graph::Graph& graph, const PlanOptions& options) const {
  return with_memory_errors([&] {
    CpuOperations operations(graph, with_progress(options), threads_, chooser_);
    return memory_of(Blueprint(operations), operations);
  });
}

std::vector<OperationChoice> CpuBackend::choices(const graph::Graph& graph,
                                                 const PlanOptions& options) const {
  return with_memory_errors([&] {
    CpuOperations operations(graph, with_progress(options), threads_, chooser_);
    return Blueprint(operations).choices();
  });
}

}  // namespace lockstep::backend::cpu
