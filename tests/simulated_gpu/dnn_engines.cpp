// SPDX-License-Identifier: BSD-3-Clause
// The engines of the simulated cuDNN: heuristics, execution plans and their serialised form.

#include <algorithm>
#include <chrono>
#include <cudnn_frontend/thirdparty/nlohmann/json.hpp>
#include <mutex>
#include <thread>

#include "backend/cuda/device/device.hpp"
#include "dnn.hpp"
#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

std::vector<Engine> scripted;
EngineCalls calls;
std::mutex calls_mutex;  // engines are built by several threads

}  // namespace

void set_engines(std::vector<Engine> engines) {
  scripted = std::move(engines);
  calls = {};
  has_failed_kernel() = false;
}
EngineCalls engine_calls() { return calls; }
std::string engine_name(const std::string& tag) {
  return scripted.at(std::stoul(tag.substr(3))).name;
}

namespace dnn {

namespace {

using Json = nlohmann::json;
using Shared = std::shared_ptr<const Descriptor>;

/// The first operand x of the graph, whose sizes determine its engines.
Tensor leading_tensor(const Descriptor& graph) {
  const auto all = operands(*operations_of(graph).front());
  return all.front().tensor;
}
std::int64_t images_of(const Descriptor& graph) { return leading_tensor(graph).sizes.front(); }

std::vector<Engine> engines_of(const Descriptor& graph) {
  if (!scripted.empty()) return scripted;
  // Sizes of the workspace are odd and different for every graph. Several engines make the backend
  // time them. Only small graphs have two, because timing large graphs on the host would take long.
  constexpr std::int64_t small = 4096;
  std::size_t tensors = 0;
  for (const Shared& operation : operations_of(graph)) tensors += operands(*operation).size();
  std::vector<Engine> engines{{.name = "plain loops", .workspace_bytes = 61 * tensors},
                              {.name = "plain loops again", .workspace_bytes = 61 * tensors + 17}};
  if (leading_tensor(graph).elements() >= small) engines.pop_back();
  return engines;
}

Shared configuration(const Shared& graph, std::size_t index, const Engine& facts) {
  auto engine = std::make_shared<Descriptor>(
      Descriptor{.type = CUDNN_BACKEND_ENGINE_DESCRIPTOR, .is_finalized = true});
  engine->set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {graph});
  engine->set<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                            {static_cast<std::int64_t>(index)});
  std::vector<cudnnBackendNumericalNote_t> numerical = facts.numerical_notes;
  if (facts.has_tensor_cores) numerical.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  engine->set(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, numerical);
  std::vector<cudnnBackendBehaviorNote_t> behaviour;
  if (facts.is_runtime_compiled) behaviour.push_back(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
  engine->set(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, behaviour);

  auto result = std::make_shared<Descriptor>(
      Descriptor{.type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, .is_finalized = true});
  result->set(CUDNN_ATTR_ENGINECFG_ENGINE, {engine});
  result->set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, {});
  result->set<std::int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                            {static_cast<std::int64_t>(facts.workspace_bytes)});
  result->set<std::int32_t>(CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT32, {0});
  return result;
}

cudnnStatus_t query(Descriptor& heuristics) {
  if (heuristics.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) ==
      CUDNN_HEUR_MODE_FALLBACK)
    return fail(CUDNN_STATUS_NOT_SUPPORTED, "no fallback");
  const Shared graph = heuristics.shared_child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const std::vector<Engine> engines = engines_of(*graph);
  std::vector<Shared> results;
  for (std::size_t i = 0; i < engines.size(); ++i)
    results.push_back(configuration(graph, i, engines[i]));
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_RESULTS, std::move(results));
  return CUDNN_STATUS_SUCCESS;
}

/// Returns the attributes of the descriptor and of those to which it refers, except for handles.
Json write(const Descriptor& descriptor) {
  Json attributes = Json::array();
  for (const auto& [name, attribute] : descriptor.attributes) {
    if (attribute.type == CUDNN_TYPE_HANDLE) continue;
    Json children = Json::array(), bytes = Json::array();
    for (const Shared& child : attribute.descriptors) children.push_back(write(*child));
    for (const std::byte byte : attribute.bytes) bytes.push_back(static_cast<unsigned>(byte));
    attributes.push_back(
        {static_cast<int>(name), static_cast<int>(attribute.type), bytes, children});
  }
  return {{"type", static_cast<int>(descriptor.type)}, {"attributes", attributes}};
}

Shared read(const Json& json) {
  auto descriptor = std::make_shared<Descriptor>(
      Descriptor{.type = static_cast<cudnnBackendDescriptorType_t>(json.at("type").get<int>()),
                 .is_finalized = true});
  for (const Json& item : json.at("attributes")) {
    Attribute attribute{.type = static_cast<cudnnBackendAttributeType_t>(item.at(1).get<int>())};
    for (const Json& byte : item.at(2))
      attribute.bytes.push_back(static_cast<std::byte>(byte.get<unsigned>()));
    for (const Json& child : item.at(3)) attribute.descriptors.push_back(read(child));
    descriptor->attributes[static_cast<AttributeName>(item.at(0).get<int>())] =
        std::move(attribute);
  }
  return descriptor;
}

cudnnStatus_t restore(Descriptor& plan) {
  const auto text = plan.values<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  try {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {read(Json::parse(text))});
    static_cast<void>(engine_of(plan));
  } catch (const std::exception& error) {  // not a serialised plan, or of an unknown engine
    return fail(CUDNN_STATUS_BAD_PARAM, error.what());
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t build(Descriptor& plan) {
  const Engine engine = engine_of(plan);
  std::this_thread::sleep_for(std::chrono::duration<double>(engine.build_seconds));
  const std::lock_guard lock(calls_mutex);
  calls.built.push_back(engine.name);
  const std::int64_t images = images_of(*graph_of(plan));
  calls.largest_built = std::max(calls.largest_built, images);
  if (!engine.refusal.empty()) return fail(CUDNN_STATUS_NOT_SUPPORTED, engine.refusal);
  return CUDNN_STATUS_SUCCESS;
}

const Descriptor& engine_descriptor(const Descriptor& plan) {
  return plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).child(CUDNN_ATTR_ENGINECFG_ENGINE);
}

}  // namespace

const std::vector<Shared>& operations_of(const Descriptor& graph) {
  return graph.find(CUDNN_ATTR_OPERATIONGRAPH_OPS)->descriptors;
}
Shared graph_of(const Descriptor& plan) {
  return engine_descriptor(plan).shared_child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}
Engine engine_of(const Descriptor& plan) {
  const auto index = engine_descriptor(plan).value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  return engines_of(*graph_of(plan)).at(static_cast<std::size_t>(index));
}

void count_run(const Descriptor& plan) {
  if (calls.run.empty()) calls.built_before_first_run = calls.built.size();
  calls.run.push_back(engine_of(plan).name);
}

void serialise(Descriptor& plan) {
  const std::string text = write(plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)).dump();
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
           std::vector<char>(text.begin(), text.end()));
}

void describe_device(Descriptor& properties) {
  const auto index = properties.value<std::int32_t>(CUDNN_ATTR_DEVICEPROP_DEVICE_ID);
  const auto device = backend::cuda::describe_device(index);
  const Json fields{{"deviceName", device.name},
                    {"deviceVer", 10 * device.compute_capability},
                    {"multiProcessorCount", device.multiprocessors},
                    {"totalGlobalMem", device.total_memory},
                    {"l2CacheSize", device.l2_cache}};
  const std::string text = fields.dump();
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 std::vector<char>(text.begin(), text.end()));
}

cudnnStatus_t complete(Descriptor& descriptor) {
  if (descriptor.type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) describe_device(descriptor);
  if (descriptor.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) return query(descriptor);
  if (descriptor.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  const bool is_new = descriptor.find(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) != nullptr;
  const cudnnStatus_t status = is_new ? build(descriptor) : restore(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const Descriptor& chosen = descriptor.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  descriptor.attributes[CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE] =
      *chosen.find(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace dnn

}  // namespace lockstep::simulated_gpu
