// Replaces cuDNN: operation graphs are executed on the host with simple loops. Tensors inside a
// graph are float32, sums are accumulated in float64, and output tensors are rounded to their type.

#include "backend/cuda/dnn/operation_graph.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "backend/cuda/context.hpp"
#include "backend/cuda/dnn/refusal.hpp"
#include "lockstep/core/error.hpp"
#include "simulated_gpu/engines.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::cuda {

namespace {

struct Value {
  Extents extents;
  std::vector<float> elements;  ///< NHWC; filled only during a run of the graph
};

struct Outlet {
  std::size_t tensor;
  OperationGraph::Port port;
};

std::vector<simulated_gpu::Engine> scripted;
simulated_gpu::EngineCalls calls;
std::mutex calls_mutex;  // engines are built by several threads

/// Returns the engines of a graph with `tensors` tensors.
std::vector<simulated_gpu::Engine> engines_of(const Extents& first, std::size_t tensors) {
  if (!scripted.empty()) return scripted;
  // Sizes of the workspace are odd and different for every graph. Several engines make the backend
  // time them. Only small graphs have two, because timing large graphs on the host would take long.
  constexpr std::int64_t small = 4096;
  std::vector<simulated_gpu::Engine> engines{
      {.name = "plain loops", .workspace_bytes = 61 * tensors},
      {.name = "plain loops again", .workspace_bytes = 61 * tensors + 17}};
  if (first.elements() >= small) engines.pop_back();
  return engines;
}

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

struct OperationGraph::Parts {
  const Target* target;
  std::vector<Value> values;
  std::vector<Outlet> inputs, outputs;
  std::vector<std::function<void(std::vector<Value>&)>> steps;
  std::vector<simulated_gpu::Engine> engines;
  mutable simulated_gpu::Module module;

  std::size_t add(const Extents& extents) {
    values.push_back({extents, {}});
    return values.size() - 1;
  }
};

OperationGraph::OperationGraph(const Target& target, core::DataType)
    : parts_(std::make_unique<Parts>()) {
  parts_->target = &target;
}
OperationGraph::~OperationGraph() = default;

namespace {

std::size_t bytes_of(const Extents& extents, core::DataType type) {
  return static_cast<std::size_t>(extents.elements()) * core::size_of(type);
}

/// Calls work(index in y, index in x, index in the weights) for every product of the convolution of
/// x with weights of extents w. All indices are those of NHWC or KRSC arrays.
template <class Work>
void for_each_product(const Extents& x, const Extents& w, const Extents& y, Window window,
                      Work&& work) {
  for (std::int64_t n = 0; n < y.n; ++n) {
    for (std::int64_t p = 0; p < y.h; ++p) {
      for (std::int64_t q = 0; q < y.w; ++q) {
        for (std::int64_t r = 0; r < w.h; ++r) {
          const std::int64_t row = p * window.stride - window.padding + r;
          if (row < 0 || row >= x.h) continue;
          for (std::int64_t s = 0; s < w.w; ++s) {
            const std::int64_t column = q * window.stride - window.padding + s;
            if (column < 0 || column >= x.w) continue;
            const std::int64_t at_x = ((n * x.h + row) * x.w + column) * x.c;
            const std::int64_t at_y = ((n * y.h + p) * y.w + q) * y.c;
            for (std::int64_t k = 0; k < y.c; ++k) {
              const std::int64_t at_w = ((k * w.h + r) * w.w + s) * w.c;
              for (std::int64_t c = 0; c < x.c; ++c)
                work(static_cast<std::size_t>(at_y + k), static_cast<std::size_t>(at_x + c),
                     static_cast<std::size_t>(at_w + c));
            }
          }
        }
      }
    }
  }
}

std::vector<double> zeros(const Extents& extents) {
  return std::vector<double>(static_cast<std::size_t>(extents.elements()));
}

void store(const std::vector<double>& from, Value& to) {
  to.elements.assign(from.begin(), from.end());
}

}  // namespace

OperationGraph::Tensor OperationGraph::input(std::int64_t uid, const Extents& extents,
                                             core::DataType type) {
  const std::size_t tensor = parts_->add(extents);
  parts_->inputs.push_back({tensor, {uid, bytes_of(extents, type), type}});
  return tensor;
}

OperationGraph::Tensor OperationGraph::constant(float value) {
  const std::size_t tensor = parts_->add({1, 1, 1, 1});
  parts_->steps.push_back([=](auto& values) { values[tensor].elements = {value}; });
  return tensor;
}

OperationGraph::Tensor OperationGraph::convolution(Tensor x, Tensor weights, Window window) {
  const Extents in = parts_->values[x].extents, w = parts_->values[weights].extents;
  const Extents out{in.n, w.n, (in.h + 2 * window.padding - w.h) / window.stride + 1,
                    (in.w + 2 * window.padding - w.w) / window.stride + 1};
  const std::size_t y = parts_->add(out);
  parts_->steps.push_back([=](auto& values) {
    auto sums = zeros(out);
    const auto& from = values[x].elements;
    const auto& factors = values[weights].elements;
    for_each_product(in, w, out, window, [&](std::size_t i, std::size_t j, std::size_t k) {
      sums[i] += double{from[j]} * double{factors[k]};
    });
    store(sums, values[y]);
  });
  return y;
}

OperationGraph::Tensor OperationGraph::convolution_backward_data(Tensor dy, Tensor weights,
                                                                 const Extents& x, Window window) {
  const Extents out = parts_->values[dy].extents, w = parts_->values[weights].extents;
  const std::size_t dx = parts_->add(x);
  parts_->steps.push_back([=](auto& values) {
    auto sums = zeros(x);
    const auto& from = values[dy].elements;
    const auto& factors = values[weights].elements;
    for_each_product(x, w, out, window, [&](std::size_t i, std::size_t j, std::size_t k) {
      sums[j] += double{from[i]} * double{factors[k]};
    });
    store(sums, values[dx]);
  });
  return dx;
}

OperationGraph::Tensor OperationGraph::convolution_backward_weights(Tensor dy, Tensor x,
                                                                    const Extents& weights,
                                                                    Window window) {
  const Extents out = parts_->values[dy].extents, in = parts_->values[x].extents;
  const std::size_t dw = parts_->add(weights);
  parts_->steps.push_back([=](auto& values) {
    auto sums = zeros(weights);
    const auto& gradients = values[dy].elements;
    const auto& from = values[x].elements;
    for_each_product(in, weights, out, window, [&](std::size_t i, std::size_t j, std::size_t k) {
      sums[k] += double{gradients[i]} * double{from[j]};
    });
    store(sums, values[dw]);
  });
  return dw;
}

OperationGraph::Tensor OperationGraph::pointwise(Pointwise operation, Tensor a) {
  return pointwise(operation, a, a);
}

OperationGraph::Tensor OperationGraph::pointwise(Pointwise operation, Tensor a, Tensor b) {
  const Extents extents = parts_->values[a].extents;
  const std::size_t c = parts_->add(extents);
  parts_->steps.push_back([=](auto& values) {
    const auto& left = values[a].elements;
    const auto& right = values[b].elements;
    auto& to = values[c].elements;
    to.resize(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      const float other = right[i % right.size()];  // vectors are broadcast over the pixels
      switch (operation) {
        case Pointwise::relu_backward: to[i] = other > 0 ? left[i] : 0; break;
        case Pointwise::relu: to[i] = left[i] > 0 ? left[i] : 0; break;
        case Pointwise::add: to[i] = left[i] + other; break;
        case Pointwise::multiply: to[i] = left[i] * other; break;
        case Pointwise::is_greater: to[i] = left[i] > other ? 1 : 0; break;
      }
    }
  });
  return c;
}

OperationGraph::BatchNorm OperationGraph::batch_norm(Tensor x, Tensor scale, Tensor bias,
                                                     Tensor running_mean, Tensor running_variance,
                                                     float epsilon, float momentum) {
  const Extents map = parts_->values[x].extents, vector{1, map.c, 1, 1};
  const BatchNorm to{parts_->add(map), parts_->add(vector), parts_->add(vector),
                     parts_->add(vector), parts_->add(vector)};
  parts_->steps.push_back([=](auto& values) {
    const auto& from = values[x].elements;
    const auto channels = static_cast<std::size_t>(map.c);
    const auto rows = static_cast<double>(from.size() / channels);
    for (const Tensor vector_of :
         {to.mean, to.inverse_deviation, to.running_mean, to.running_variance})
      values[vector_of].elements.resize(channels);
    values[to.y].elements.resize(from.size());
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0, squares = 0;
      for (std::size_t i = c; i < from.size(); i += channels) sum += double{from[i]};
      const double mean = sum / rows;
      for (std::size_t i = c; i < from.size(); i += channels)
        squares += (double{from[i]} - mean) * (double{from[i]} - mean);
      const double inverse = 1 / std::sqrt(squares / rows + double{epsilon});
      const auto moved = [&](Tensor old, double now) {
        return static_cast<float>((1 - double{momentum}) * double{values[old].elements[c]} +
                                  double{momentum} * now);
      };
      values[to.mean].elements[c] = static_cast<float>(mean);
      values[to.inverse_deviation].elements[c] = static_cast<float>(inverse);
      values[to.running_mean].elements[c] = moved(running_mean, mean);
      values[to.running_variance].elements[c] = moved(running_variance, squares / (rows - 1));
      for (std::size_t i = c; i < from.size(); i += channels)
        values[to.y].elements[i] = static_cast<float>((double{from[i]} - mean) * inverse *
                                                          double{values[scale].elements[c]} +
                                                      double{values[bias].elements[c]});
    }
  });
  return to;
}

OperationGraph::Tensor OperationGraph::batch_norm_apply(Tensor x, Tensor mean,
                                                        Tensor inverse_deviation, Tensor scale,
                                                        Tensor bias) {
  const std::size_t y = parts_->add(parts_->values[x].extents);
  parts_->steps.push_back([=](auto& values) {
    const auto& from = values[x].elements;
    const std::size_t channels = values[mean].elements.size();
    auto& to = values[y].elements;
    to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto at = [&](Tensor vector) { return values[vector].elements[i % channels]; };
      to[i] = (from[i] - at(mean)) * at(inverse_deviation) * at(scale) + at(bias);
    }
  });
  return y;
}

OperationGraph::ChannelSums OperationGraph::channel_sums(Tensor x) {
  const std::int64_t channels = parts_->values[x].extents.c;
  return {channel_sum(x, channels), channel_sum(pointwise(Pointwise::multiply, x, x), channels)};
}

OperationGraph::Tensor OperationGraph::channel_sum(Tensor x, std::int64_t channels) {
  const std::size_t to = parts_->add({1, channels, 1, 1});
  parts_->steps.push_back([=](auto& values) {
    std::vector<double> sums(static_cast<std::size_t>(channels));
    const auto& from = values[x].elements;
    for (std::size_t i = 0; i < from.size(); ++i) sums[i % sums.size()] += double{from[i]};
    store(sums, values[to]);
  });
  return to;
}

OperationGraph::BatchNormBackward OperationGraph::batch_norm_backward(Tensor dy, Tensor x,
                                                                      Tensor scale, Tensor mean,
                                                                      Tensor inverse_deviation) {
  const Extents map = parts_->values[x].extents, vector{1, map.c, 1, 1};
  const BatchNormBackward to{parts_->add(map), parts_->add(vector), parts_->add(vector)};
  parts_->steps.push_back([=](auto& values) {
    const auto& from = values[x].elements;
    const auto& gradients = values[dy].elements;
    const auto channels = static_cast<std::size_t>(map.c);
    const auto rows = static_cast<double>(from.size() / channels);
    values[to.dx].elements.resize(from.size());
    values[to.dscale].elements.resize(channels);
    values[to.dbias].elements.resize(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      const double centre = double{values[mean].elements[c]};
      const double inverse = double{values[inverse_deviation].elements[c]};
      double sum = 0, product = 0;
      for (std::size_t i = c; i < from.size(); i += channels) {
        sum += double{gradients[i]};
        product += double{gradients[i]} * (double{from[i]} - centre) * inverse;
      }
      values[to.dbias].elements[c] = static_cast<float>(sum);
      values[to.dscale].elements[c] = static_cast<float>(product);
      for (std::size_t i = c; i < from.size(); i += channels) {
        const double normal = (double{from[i]} - centre) * inverse;
        values[to.dx].elements[i] =
            static_cast<float>(double{values[scale].elements[c]} * inverse *
                               (double{gradients[i]} - sum / rows - normal * product / rows));
      }
    }
  });
  return to;
}

void OperationGraph::output(Tensor tensor, std::int64_t uid, core::DataType type) {
  parts_->outputs.push_back({tensor, {uid, bytes_of(parts_->values[tensor].extents, type), type}});
}

std::vector<OperationGraph::Port> OperationGraph::ports() const {
  std::map<std::int64_t, Port> sorted;
  for (const auto* outlets : {&parts_->inputs, &parts_->outputs}) {
    for (const Outlet& outlet : *outlets) sorted.emplace(outlet.port.uid, outlet.port);
  }
  std::vector<Port> all;
  for (const auto& [uid, port] : sorted) all.push_back(port);
  return all;
}

void OperationGraph::limit_multiprocessors(int) {}

std::optional<std::string> OperationGraph::seal() { return std::nullopt; }
std::optional<std::string> OperationGraph::find_engines(Heuristics heuristics) {
  if (heuristics == Heuristics::fallback) return "no fallback";
  parts_->engines = engines_of(parts_->values.front().extents, parts_->values.size());
  return std::nullopt;
}
std::size_t OperationGraph::engines() const { return parts_->engines.size(); }
EngineFacts OperationGraph::facts(std::size_t engine) const {
  const simulated_gpu::Engine& facts = parts_->engines.at(engine);
  return {.name = facts.name,
          .tensor_core = facts.has_tensor_cores,
          .runtime_compiled = facts.is_runtime_compiled};
}
std::optional<std::string> OperationGraph::build(std::size_t engine, std::size_t limit) {
  const simulated_gpu::Engine& one = parts_->engines.at(engine);
  sleep(one.build_seconds);
  const std::lock_guard lock(calls_mutex);
  calls.built.push_back(one.name);
  const std::int64_t images = parts_->values.front().extents.n;
  calls.largest_built = std::max(calls.largest_built, images);
  const bool applies = images >= one.refused_images;
  if (!one.refusal.empty() && applies) return one.refusal;
  if (one.workspace_bytes > limit) return "the workspace is too large";
  return std::nullopt;
}
std::size_t OperationGraph::workspace_bytes(std::size_t engine) const {
  return parts_->engines.at(engine).workspace_bytes;
}
void OperationGraph::keep_only(std::size_t) {}

std::vector<std::uint8_t> OperationGraph::serialise(std::size_t engine) const {
  const std::string& name = parts_->engines.at(engine).name;
  return {name.begin(), name.end()};
}
std::unique_ptr<OperationGraph> OperationGraph::restored(std::span<const std::uint8_t> bytes,
                                                         const std::string& name) const {
  if (!std::ranges::equal(bytes, name)) return nullptr;
  const auto known = engines_of(parts_->values.front().extents, parts_->values.size());
  const auto engine = std::ranges::find(known, name, &simulated_gpu::Engine::name);
  if (engine == known.end()) return nullptr;
  auto copy = std::make_unique<OperationGraph>(*parts_->target, core::DataType::float32);
  *copy->parts_ = *parts_;
  copy->parts_->engines = {*engine};
  return copy;
}

namespace {

using Places = std::map<std::int64_t, void*>;

/// Returns the message of cudnn-frontend if cuDNN cannot allocate memory.
std::string allocation_failed() {
  return std::string("detail::execute(handle, plan, pack) failed with message: , and code: ") +
         cudnnGetErrorString(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
}

constexpr std::size_t tensor_alignment = 16, workspace_alignment = 256;

void require_aligned(const void* data, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
    simulated_gpu::violation("alignment of memory",
                             "cuDNN needs a multiple of " + std::to_string(alignment));
}

void add_access(const Places& places, const OperationGraph::Port& port,
                std::vector<simulated_gpu::Access>& to) {
  void* const data = places.at(port.uid);
  require_aligned(data, tensor_alignment);
  to.push_back({data, port.bytes});
}

void load(const Outlet& from, const Places& places, std::vector<Value>& values) {
  auto& elements = values[from.tensor].elements;
  elements.resize(static_cast<std::size_t>(values[from.tensor].extents.elements()));
  with_type(from.port.type, [&](auto zero) {
    const auto* const data = static_cast<decltype(zero)*>(places.at(from.port.uid));
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = kernels::widen(data[i]);
  });
}

void store(const Outlet& to, const Places& places, const std::vector<Value>& values) {
  const auto& elements = values[to.tensor].elements;
  with_type(to.port.type, [&](auto zero) {
    auto* const data = static_cast<decltype(zero)*>(places.at(to.port.uid));
    for (std::size_t i = 0; i < elements.size(); ++i) kernels::narrow(elements[i], data[i]);
  });
}

}  // namespace

std::optional<std::string> OperationGraph::run(std::size_t engine,
                                               std::span<const Binding> bindings,
                                               void* workspace) const {
  Places places;
  for (const Binding& binding : bindings) places[binding.uid] = binding.data;
  for (const Port& port : ports()) {
    if (places[port.uid] == nullptr) return "tensor " + std::to_string(port.uid) + " has no place";
  }
  if (places.size() != ports().size()) return "a tensor is given that the graph does not know";
  if (!parts_->module.load("a cuDNN graph")) return refusal_of(allocation_failed());
  const simulated_gpu::Engine& one = parts_->engines.at(engine);
  calls.run.push_back(one.name);
  calls.largest_run = std::max(calls.largest_run, parts_->values.front().extents.n);
  simulated_gpu::Task task{.kind = simulated_gpu::WorkKind::dnn};
  for (const Outlet& outlet : parts_->inputs) add_access(places, outlet.port, task.reads);
  for (const Outlet& outlet : parts_->outputs) add_access(places, outlet.port, task.writes);
  const std::size_t workspace_size = workspace_bytes(engine);
  require_aligned(workspace, workspace_alignment);
  task.writes.push_back({workspace, workspace_size});
  // The graph may be destroyed before the stream executes this work, so the work holds a copy of
  // its parts. The bound memory must still exist then.
  task.run = [parts = *parts_, places, workspace, workspace_size, seconds = one.run_seconds] {
    sleep(seconds);
    std::memset(workspace, 0xff, workspace_size);  // no engine may rely on earlier contents
    std::vector<Value> values = parts.values;
    for (const Outlet& outlet : parts.inputs) load(outlet, places, values);
    for (const auto& step : parts.steps) step(values);
    for (const Outlet& outlet : parts.outputs) store(outlet, places, values);
  };
  simulated_gpu::enqueue(parts_->target->stream(), std::move(task));
  return std::nullopt;
}

}  // namespace lockstep::backend::cuda

void lockstep::simulated_gpu::set_engines(std::vector<Engine> engines) {
  lockstep::backend::cuda::scripted = std::move(engines);
  lockstep::backend::cuda::calls = {};
}

lockstep::simulated_gpu::EngineCalls lockstep::simulated_gpu::engine_calls() {
  return lockstep::backend::cuda::calls;
}
