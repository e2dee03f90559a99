// SPDX-License-Identifier: BSD-3-Clause
#include "engine_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "../kernels/difference.hpp"
#include "../launch.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

using PortKind = OperationGraph::PortKind;

/// Groups of which the outputs are kept: a right one, and two wrong ones.
constexpr std::size_t kept_groups = 3;

double quotient(double distance, double norm) {
  if (distance == 0) return 0;
  return distance / norm;
}

/// Returns the largest of all values; NaN if one is.
double largest(std::span<const double> values) {
  double most = 0;
  for (const double value : values) {
    if (std::isnan(value)) return value;
    most = std::max(most, value);
  }
  return most;
}

/// Enqueues the kernel that computes the partial sums of (a - b)^2; b may be null.
template <class T>
void enqueue_distance(cudaStream_t stream, const core::Buffer& a, const core::Buffer* b,
                      double* sums) {
  launch(stream,
         kernels::SquaredDistance<T>{reinterpret_cast<const T*>(a.data()),
                                     b != nullptr ? reinterpret_cast<const T*>(b->data()) : nullptr,
                                     sums, static_cast<std::int64_t>(a.bytes() / sizeof(T))});
}

}  // namespace

EngineTrial::EngineTrial(const Target& target, const OperationGraph& graph,
                         std::size_t workspace_bytes)
    : target_(target),
      stopwatch_(target),
      workspace_(core::device_buffer(workspace_bytes, "the workspace of engines under test")),
      sums_(core::device_buffer(kernels::distance_parts * sizeof(double), "comparing engines")) {
  for (const auto& port : graph.ports()) {
    tensors_.push_back({port, random_buffer(port.bytes, port.type, tensors_.size())});
    bindings_.push_back({port.uid, tensors_.back().memory.data()});
    tensor_bytes_ += port.bytes;
  }
}

bool EngineTrial::fits(const Target& target, const OperationGraph& graph,
                       std::size_t workspace_bytes) {
  std::size_t bytes = workspace_bytes;
  for (const auto& port : graph.ports())
    bytes += port.kind == PortKind::input ? port.bytes : 2 * port.bytes;
  return KernelStopwatch::fits(target, bytes);
}

bool EngineTrial::enqueue(const OperationGraph& graph, std::size_t engine) const {
  auto refusal = graph.run(engine, bindings_, workspace_.data());
  if (!refusal) return true;
  refusal_ = *std::move(refusal);
  return false;
}

double EngineTrial::seconds(const OperationGraph& graph, std::size_t engine) const {
  return stopwatch_.seconds(tensor_bytes_, [&] { return enqueue(graph, engine); });
}

bool EngineTrial::runs(const OperationGraph& restored) const {
  if (!enqueue(restored, 0)) return false;
  check_cuda(cudaStreamSynchronize(target_.stream()), "trying a restored engine");
  return true;
}

std::vector<const EngineTrial::Tensor*> EngineTrial::outputs() const {
  std::vector<const Tensor*> found;
  for (const Tensor& tensor : tensors_)
    if (tensor.port.kind != PortKind::input) found.push_back(&tensor);
  return found;
}

void EngineTrial::prepare_outputs() const {
  for (const Tensor* const output : outputs()) {
    constexpr int nan_byte = 0xff;  // all bits set: NaN in all data types
    const int value = output->port.kind == PortKind::zeroed_output ? 0 : nan_byte;
    check_cuda(
        cudaMemsetAsync(output->memory.data(), value, output->memory.bytes(), target_.stream()),
        "preparing the outputs of engines");
  }
}

std::optional<std::size_t> EngineTrial::compare(const OperationGraph& graph, std::size_t engine,
                                                double tolerance) {
  prepare_outputs();
  if (!enqueue(graph, engine)) return std::nullopt;
  check_cuda(cudaStreamSynchronize(target_.stream()), "running an engine");
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    AgreeingEngines& group = groups_[i];
    if (current_distance(group) <= std::max(tolerance, group.tolerance)) {
      ++group.count;
      return i;
    }
  }
  add_group(graph.facts(engine).name, tolerance);
  return groups_.size() - 1;
}

/// Returns the Euclidean norm of a, or of a - b. Waits for the stream.
double EngineTrial::norm(core::DataType type, const core::Buffer& a, const core::Buffer* b) const {
  auto* const sums = reinterpret_cast<double*>(sums_.data());
  const cudaStream_t stream = target_.stream();
  switch (type) {
    case core::DataType::float32: enqueue_distance<float>(stream, a, b, sums); break;
    case core::DataType::bfloat16: enqueue_distance<core::BFloat16>(stream, a, b, sums); break;
    case core::DataType::float16: enqueue_distance<core::Float16>(stream, a, b, sums); break;
  }
  std::array<double, kernels::distance_parts> parts{};
  check_cuda(
      cudaMemcpyAsync(parts.data(), sums_.data(), sizeof parts, cudaMemcpyDeviceToHost, stream),
      "comparing engines");
  check_cuda(cudaStreamSynchronize(stream), "comparing engines");
  double sum = 0;
  for (const double part : parts) sum += part;
  return std::sqrt(sum);
}

/// Returns the largest relative distance between the current outputs and those of a group.
double EngineTrial::current_distance(const AgreeingEngines& reference) const {
  if (reference.outputs.empty()) return failed;
  std::vector<double> distances;
  const auto current = outputs();
  for (std::size_t i = 0; i < current.size(); ++i)
    distances.push_back(
        quotient(norm(current[i]->port.type, current[i]->memory, &reference.outputs[i]),
                 reference.norms[i]));
  return largest(distances);
}

void EngineTrial::add_group(const std::string& name, double tolerance) {
  AgreeingEngines group{.first = name, .count = 1, .tolerance = tolerance};
  const auto kept = static_cast<std::size_t>(std::ranges::count_if(
      groups_, [](const AgreeingEngines& one) { return !one.outputs.empty(); }));
  std::vector<core::Buffer> copies;
  for (const Tensor* const output : outputs()) {
    group.norms.push_back(norm(output->port.type, output->memory));
    group.is_finite = group.is_finite && std::isfinite(group.norms.back());
  }
  group.overflows = std::isinf(largest(group.norms));
  try {
    for (const Tensor* const output : outputs()) {
      // No output agrees with one that is not finite.
      if (kept >= kept_groups || !group.is_finite) break;
      copies.push_back(core::device_buffer(output->memory.bytes(), "comparing engines"));
      check_cuda(
          cudaMemcpyAsync(copies.back().data(), output->memory.data(), output->memory.bytes(),
                          cudaMemcpyDeviceToDevice, target_.stream()),
          "comparing engines");
    }
    group.outputs = std::move(copies);
  } catch (const core::Error& error) {
    if (error.status() != core::ExitStatus::out_of_memory) throw;
  }
  groups_.push_back(std::move(group));
}

std::size_t EngineTrial::majority() const {
  const auto better = [](const AgreeingEngines& a, const AgreeingEngines& b) {
    return a.count != b.count ? a.count > b.count : a.is_finite && !b.is_finite;
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < groups_.size(); ++i)
    if (better(groups_[i], groups_[best])) best = i;
  return best;
}

/// Returns the largest relative distance between the outputs of two groups; NaN if they are not in
/// memory.
double EngineTrial::distance(const AgreeingEngines& from, const AgreeingEngines& reference) const {
  if (from.outputs.empty() || reference.outputs.empty()) return std::nan("");
  std::vector<double> distances;
  const auto all = outputs();
  for (std::size_t i = 0; i < all.size(); ++i)
    distances.push_back(quotient(norm(all[i]->port.type, from.outputs[i], &reference.outputs[i]),
                                 reference.norms[i]));
  return largest(distances);
}

std::string EngineTrial::describe_difference(std::size_t group, std::size_t reference,
                                             double tolerance) const {
  const AgreeingEngines& from = groups_.at(group);
  const AgreeingEngines& to = groups_.at(reference);
  if (!from.is_finite)
    return "its output has elements that it did not write or that are not finite";
  const double difference = distance(from, to);
  const char* const vote = to.count > 1 ? "" : "; no two engines agree";
  if (std::isnan(difference))
    return fmt::format("its output differs from that of {} by more than {:.2g}{}", to.first,
                       tolerance, vote);
  return fmt::format("its output differs from that of {} by {:.2g}, more than {:.2g}{}", to.first,
                     difference, tolerance, vote);
}

double output_tolerance(const OperationGraph& graph, bool is_true_fp32, const EngineFacts& engine) {
  // Engines add the same products in different orders, in float32, and round the results to the
  // data type of the outputs. Inputs are random and of both signs, so that a sum of n terms is
  // about sqrt(n) times smaller than the sum of their magnitudes; with n = 2^20, errors of some
  // 2^-24 of each partial sum amount to less than 1e-3 of the result. Rounding adds a few units of
  // the narrowest type: 2^-8 for bf16, 2^-11 for fp16 and for the operands of tf32. An engine that
  // rounds partial sums to this type does so once per part of a split sum.
  constexpr double order_of_sums = 1e-3;
  constexpr double roundings = 8, roundings_of_narrow_sums = 32;
  double unit = is_true_fp32 ? 0 : 0x1p-11;
  for (const auto& port : graph.ports())
    if (port.type == core::DataType::bfloat16) unit = 0x1p-8;
  return order_of_sums + unit * (engine.narrow_sums ? roundings_of_narrow_sums : roundings);
}

}  // namespace lockstep::backend::cuda
