// SPDX-License-Identifier: BSD-3-Clause
// The execution of plans of the simulated cuDNN.

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <thread>

#include "backend/cuda/context.hpp"
#include "dnn.hpp"
#include "state.hpp"

namespace lockstep::simulated_gpu::dnn {

namespace {

constexpr std::int64_t workspace_alignment = 256;

core::DataType element_type(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16: return core::DataType::bfloat16;
    case CUDNN_DATA_HALF: return core::DataType::float16;
    default: return core::DataType::float32;  // virtual masks have no memory
  }
}

void require_aligned(const void* data, std::int64_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) != 0)
    violation("alignment of memory", fmt::format("cuDNN needs a multiple of {}", alignment));
}

/// A tensor that the variant pack binds to memory.
struct Bound {
  Tensor tensor;
  void* data;
  bool is_output;
};

/// Returns the tensors of the graph that are not virtual, with their memory. Reports a violation if
/// the variant pack lacks one or has others.
std::vector<Bound> bind(const Descriptor& graph, const Descriptor& pack) {
  const auto uids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<std::int64_t, void*> places;
  for (std::size_t i = 0; i < uids.size(); ++i) places[uids[i]] = pointers.at(i);
  std::map<std::int64_t, Bound> bound;
  for (const auto& operation : operations_of(graph)) {
    for (const auto& [tensor, is_output] : operands(*operation)) {
      if (tensor.is_virtual) continue;
      Bound& one = bound.emplace(tensor.uid, Bound{tensor, nullptr, false}).first->second;
      one.is_output = one.is_output || is_output;
    }
  }
  std::vector<Bound> result;
  for (auto& [uid, one] : bound) {
    const auto place = places.find(uid);
    one.data = place == places.end() ? nullptr : place->second;
    if (one.data == nullptr) violation(pack_rule, fmt::format("tensor {} has no memory", uid));
    result.push_back(one);
    places.erase(uid);
  }
  for (const auto& [uid, data] : places)
    violation(pack_rule, fmt::format("tensor {} is not in the graph", uid));
  return result;
}

/// Writes an output as the engine does.
void write(const Bound& output, std::vector<float> values, const Engine& engine) {
  if (engine.writes == Writes::nothing) return;
  const bool is_sum = output.tensor.sizes.front() == 1;
  const bool adds =
      engine.writes == Writes::additions || (engine.writes == Writes::added_sums && is_sum);
  const std::vector<float> before = load(output.tensor, output.data);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = engine.factor * values[i] + (adds ? before[i] : 0);
  if (engine.writes == Writes::all_but_last) values.back() = before.back();
  store(output.tensor, values, output.data);
}

}  // namespace

std::int64_t Tensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product *= size;
  return product;
}
std::size_t Tensor::bytes() const {
  return static_cast<std::size_t>(elements()) * core::size_of(element_type(type));
}

Tensor read_tensor(const Descriptor& descriptor) {
  return {.uid = descriptor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          .sizes = descriptor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
          .strides = descriptor.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
          .type = descriptor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
          .alignment = descriptor.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
          .is_virtual = descriptor.value_or<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false),
          .is_by_value = descriptor.value_or<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)};
}

std::vector<float> load(const Tensor& tensor, const void* data) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  backend::cuda::with_type(element_type(tensor.type), [&](auto zero) {
    const auto* const from = static_cast<const decltype(zero)*>(data);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = backend::cuda::kernels::widen(from[i]);
  });
  return values;
}

void store(const Tensor& tensor, const std::vector<float>& values, void* data) {
  backend::cuda::with_type(element_type(tensor.type), [&](auto zero) {
    auto* const to = static_cast<decltype(zero)*>(data);
    for (std::size_t i = 0; i < values.size(); ++i)
      backend::cuda::kernels::narrow(values[i], to[i]);
  });
}

void round(const Tensor& tensor, std::vector<float>& values) {
  backend::cuda::with_type(element_type(tensor.type), [&](auto narrow) {
    for (float& value : values) {
      backend::cuda::kernels::narrow(value, narrow);
      value = backend::cuda::kernels::widen(narrow);
    }
  });
}

}  // namespace lockstep::simulated_gpu::dnn

using namespace lockstep::simulated_gpu;
using namespace lockstep::simulated_gpu::dnn;

extern "C" cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                             cudnnBackendDescriptor_t plan_handle,
                                             cudnnBackendDescriptor_t pack_handle) {
  const auto plan = shared(plan_handle), pack = shared(pack_handle);
  if (!plan->is_finalized || !pack->is_finalized)
    return broken(attribute_rule, "a descriptor is used before it is finalized");
  const auto graph = graph_of(*plan);
  const std::vector<Bound> bound = bind(*graph, *pack);
  const Engine engine = engine_of(*plan);
  if (!plan->code.load("a cuDNN graph"))
    return fail(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, "no memory for code");
  count_run(*plan);
  if (!engine.run_refusal.empty()) return fail(CUDNN_STATUS_EXECUTION_FAILED, engine.run_refusal);

  Task task{.kind = WorkKind::dnn};
  Values scalars;  // on the host, and read at once
  for (const auto& [tensor, data, is_output] : bound) {
    if (data == nullptr) return fail(CUDNN_STATUS_BAD_PARAM, "a tensor has no memory");
    if (tensor.is_by_value) {
      scalars[tensor.uid] = load(tensor, data);
    } else {
      require_aligned(data, tensor.alignment);
      (is_output ? task.writes : task.reads).push_back({data, tensor.bytes()});
    }
  }
  auto* const workspace = pack->value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const auto workspace_bytes =
      static_cast<std::size_t>(plan->value<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  if (workspace == nullptr && workspace_bytes > 0)
    return broken(pack_rule, "there is no workspace");
  require_aligned(workspace, workspace_alignment);
  task.writes.push_back({workspace, workspace_bytes});
  // The bound memory and the plan, which has the machine code, must still exist when the stream
  // executes this work.
  task.run = [graph, bound, scalars, workspace, workspace_bytes, engine,
              code = std::weak_ptr(plan)] {
    if (code.expired())
      violation("execution plan of cuDNN", "it was destroyed before its work was executed");
    std::this_thread::sleep_for(std::chrono::duration<double>(engine.run_seconds));
    if (engine.is_faulty) has_failed_kernel() = true;
    std::memset(workspace, 0xff, workspace_bytes);  // no engine may rely on earlier contents
    Values values = scalars;
    for (const Bound& one : bound)
      if (!one.is_output && !one.tensor.is_by_value)
        values[one.tensor.uid] = load(one.tensor, one.data);
    for (const auto& operation : operations_of(*graph)) execute(*operation, values);
    for (const Bound& one : bound)
      if (one.is_output) write(one, values.at(one.tensor.uid), engine);
  };
  cudaStream_t stream = nullptr;
  cudnnGetStream(handle, &stream);
  enqueue(stream, std::move(task));
  return CUDNN_STATUS_SUCCESS;
}
