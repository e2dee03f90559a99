// SPDX-License-Identifier: BSD-3-Clause
#include "backend/support.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <variant>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend::test {

using graph::Graph;

Batch random_batch(const Graph& graph, std::int64_t images, std::uint64_t seed) {
  core::Random random(seed, core::RandomStream::test, 1);
  Batch batch;
  batch.images.resize(images * graph.image().elements());
  batch.labels.resize(images);
  for (auto& pixel : batch.images) pixel = static_cast<std::uint8_t>(random.below(256));
  for (auto& label : batch.labels) {
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(graph.classes())));
  }
  return batch;
}

Batch part(const Graph& graph, const Batch& batch, std::int64_t first, std::int64_t count) {
  const std::int64_t pixels = graph.image().elements();
  const auto images = batch.images.begin() + first * pixels;
  const auto labels = batch.labels.begin() + first;
  return {{images, images + count * pixels}, {labels, labels + count}};
}

TestSettings test_settings() {
  TestSettings settings;
  const auto read = [](const char* name, const auto& use) {
    const char* const text = std::getenv(name);
    if (text != nullptr && !use(std::string(text)))
      throw std::invalid_argument(std::string(name) + "=" + text + " is invalid");
  };
  read("LOCKSTEP_TEST_ENGINES", [&](const std::string& text) {
    settings.engines = text == "quick" ? EngineSelection::quick : EngineSelection::timed;
    return text == "quick" || text == "timed";
  });
  read("LOCKSTEP_TEST_BATCH", [&](const std::string& text) {
    constexpr std::int64_t most = 4096;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), settings.batch);
    return error == std::errc() && end == text.data() + text.size() && settings.batch >= 1 &&
           settings.batch <= most;
  });
  return settings;
}

Replica::Replica(DeviceKind device, int threads, const Graph& graph, const PlanOptions& options,
                 std::uint64_t seed, Algorithms algorithms)
    : backend(make_backend(
          {.kind = device,
           .threads = threads,
           .deterministic = device == DeviceKind::cpu || algorithms == Algorithms::fixed,
           .engines = test_settings().engines})),
      state(backend->make_state(graph, options.optimiser)) {
  graph::initialise_parameters(graph, seed, parameters());
  core::Random random(seed, core::RandomStream::test, 2);
  const auto fill = [&](std::span<float> all, const auto& tensor, float centre) {
    for (float& value : all.subspan(tensor.offset, tensor.elements)) {
      value = centre - 0.5f + random.uniform();
    }
  };
  for (const auto& parameter : graph.parameters()) {
    if (parameter.initial == graph::Initial::ones) fill(parameters(), parameter, 1);
    if (parameter.initial == graph::Initial::zeros) fill(parameters(), parameter, 0);
  }
  for (const auto& statistic : graph.statistics()) {
    fill(statistics(), statistic, statistic.initial == graph::Initial::ones ? 1 : 0);
  }
  backend->store(state);
  plan = backend->compile(graph, state, options);
}

void Replica::step(const Batch& batch) {
  core::NoGradientListener nobody;
  upload(batch);
  plan->forward();
  plan->backward(nobody);
  backend->fetch(state);
}

std::string describe_choices(const graph::Graph& graph, const Plan& plan) {
  std::string text = "implementations:";
  for (const OperationChoice& choice : plan.choices())
    text +=
        "\n  " + graph.node(choice.node).name + " " + choice.phase + ": " + choice.implementation;
  return text;
}

std::string why_not(DeviceKind device) {
  try {
    make_backend(device, 1);
    return {};
  } catch (const core::Error& error) {
    return error.what();
  }
}

std::string why_unsupported(DeviceKind device, const graph::Graph& graph) {
  try {
    make_backend({.kind = device,
                  .deterministic = device == DeviceKind::cpu,  // without timing convolutions
                  .engines = EngineSelection::quick})
        ->choices(graph, {.batch = 2, .mode = Mode::inference});
    return {};
  } catch (const core::Error& error) {
    const std::string message = error.what();
    if (message.find("is not implemented") == std::string::npos) throw;
    return message;
  }
}

double norm(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  return std::sqrt(squares);
}

double relative_error(std::span<const float> got, std::span<const float> want, double scale) {
  double squares = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    squares += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
  }
  if (scale == 0) scale = norm(want);
  return squares == 0 ? 0 : std::sqrt(squares) / scale;
}

namespace {

using graph::Convolution;
using graph::NodeId;

constexpr Convolution same{.kernel = 3, .stride = 1, .padding = 1};

/// Returns the network input -> body -> strided convolution -> average pooling -> linear -> loss.
/// Because of the strided convolution, the gradient of the output of `body` differs between pixels.
template <class Body>
Graph around(core::ImageShape image, Body body, float label_smoothing = 0) {
  Graph graph("test");
  NodeId x = body(graph, graph.input(image));
  x = graph.convolution("mix", x, 6, {.kernel = 3, .stride = 2, .padding = 1});
  x = graph.global_average_pool("pool", x);
  x = graph.linear("linear", x, 5);
  graph.softmax_cross_entropy("loss", x, {.label_smoothing = label_smoothing});
  graph.seal();
  return graph;
}

NodeId stem(Graph& graph, NodeId x, std::int64_t channels) {
  return graph.convolution("stem", x, channels, {.kernel = 1});
}

/// Returns a network with a convolution that follows another one (the stem), so that the gradient
/// of its input is also computed.
Graph convolution(core::ImageShape image, std::int64_t from, std::int64_t to,
                  Convolution operation) {
  return around(image, [&](Graph& graph, NodeId x) {
    return graph.convolution("conv", stem(graph, x, from), to, operation);
  });
}

Graph first_convolution(core::ImageShape image, std::int64_t to, Convolution operation) {
  return around(
      image, [&](Graph& graph, NodeId x) { return graph.convolution("conv", x, to, operation); });
}

Graph batch_norm(core::ImageShape image, std::int64_t channels) {
  return around(image, [&](Graph& graph, NodeId x) {
    return graph.batch_norm("bn", stem(graph, x, channels));
  });
}

Graph group_norm(core::ImageShape image, std::int64_t channels, std::int64_t groups) {
  return around(image, [&](Graph& graph, NodeId x) {
    return graph.append("gn", graph::GroupNorm{.groups = groups}, {stem(graph, x, channels)});
  });
}

/// Returns a network with group norms that are followed by a ReLU, by an addition, and by both.
Graph fused_group_norms() {
  return around({3, 9, 9}, [](Graph& graph, NodeId x) {
    const auto norm = [&](const char* name, NodeId from) {
      return graph.append(name, graph::GroupNorm{.groups = 6}, {from});
    };
    x = graph.relu("relu", norm("gn", stem(graph, x, 24)));
    const NodeId y = graph.add("add", norm("gn1", x), x);
    return graph.relu("relu2", graph.add("add2", norm("gn2", y), x));
  });
}

Graph max_pool(core::ImageShape image, std::int64_t channels, graph::MaxPool operation) {
  return around(image, [&](Graph& graph, NodeId x) {
    return graph.max_pool("maxpool", stem(graph, x, channels), operation);
  });
}

/// Returns a network with a basic block of ResNet that maps `from` to `to` channels. The shortcut
/// is a projection if `stride` is not 1 or if the number of channels changes.
Graph block(core::ImageShape image, std::int64_t from, std::int64_t to, std::int64_t stride) {
  return around(image, [&](Graph& graph, NodeId x) {
    x = graph.relu("relu", graph.batch_norm("bn", stem(graph, x, from)));
    NodeId identity = x;
    if (from != to || stride != 1) {
      identity = graph.convolution("shortcut.0", x, to, {.kernel = 1, .stride = stride});
      identity = graph.batch_norm("shortcut.1", identity);
    }
    NodeId y = graph.convolution("conv1", x, to, {.kernel = 3, .stride = stride, .padding = 1});
    y = graph.relu("relu1", graph.batch_norm("bn1", y));
    y = graph.convolution("conv2", y, to, {.kernel = 3, .stride = 1, .padding = 1});
    y = graph.batch_norm("bn2", y);
    return graph.relu("relu2", graph.add("add", y, identity));
  });
}

void append_convolutions(std::vector<Network>& networks) {
  const Convolution halving{.kernel = 3, .stride = 2, .padding = 1};
  networks.push_back({"conv3x3_1_to_3", convolution({3, 5, 7}, 1, 3, same)});
  networks.push_back({"conv3x3_3_to_5", convolution({3, 8, 8}, 3, 5, same)});
  networks.push_back({"conv3x3_5_to_17", convolution({3, 9, 9}, 5, 17, same)});
  networks.push_back({"conv3x3_17_to_24", convolution({3, 5, 7}, 17, 24, same)});
  networks.push_back({"conv3x3_24_to_33", convolution({3, 8, 8}, 24, 33, same)});
  networks.push_back({"conv3x3_33_to_16", convolution({3, 9, 9}, 33, 16, same)});
  networks.push_back({"conv3x3_stride2_odd", convolution({3, 5, 7}, 17, 5, halving)});
  networks.push_back({"conv3x3_stride2_even", convolution({3, 8, 8}, 24, 33, halving)});
  networks.push_back({"conv3x3_valid", convolution({3, 5, 7}, 5, 3, {.kernel = 3})});
  networks.push_back({"conv1x1", convolution({3, 5, 7}, 33, 17, {.kernel = 1})});
  networks.push_back(
      {"conv1x1_stride2", convolution({3, 9, 9}, 24, 33, {.kernel = 1, .stride = 2})});
  networks.push_back({"conv5x5", convolution({3, 5, 7}, 3, 17, {.kernel = 5, .padding = 2})});
  networks.push_back(
      {"conv7x7_stride2", convolution({3, 9, 9}, 5, 24, {.kernel = 7, .stride = 2, .padding = 3})});
  networks.push_back(
      {"conv2x2_stride2", convolution({3, 8, 8}, 17, 3, {.kernel = 2, .stride = 2})});
  networks.push_back({"conv3x3_64_to_64", convolution({3, 8, 8}, 64, 64, same)});
  networks.push_back({"conv3x3_32_to_96", convolution({3, 7, 9}, 32, 96, same)});
  networks.push_back({"conv3x3_64_to_32_bias", convolution({3, 13, 6}, 64, 32, {3, 1, 1, true})});
  networks.push_back({"conv3x3_bias", convolution({3, 9, 9}, 5, 17, {3, 1, 1, true})});
  networks.push_back({"conv_on_images", first_convolution({3, 5, 7}, 17, same)});
  networks.push_back({"conv_on_grey_images", first_convolution({1, 9, 9}, 24, same)});
  networks.push_back({"conv_on_many_channels", first_convolution({17, 8, 8}, 5, halving)});
  networks.push_back({"conv7x7_on_images",
                      first_convolution({3, 9, 9}, 33, {.kernel = 7, .stride = 2, .padding = 3})});
}

// Bodies of networks with patterns that a backend may or must not fuse.

NodeId add_of_two(Graph& graph, NodeId x) {
  const NodeId left = graph.convolution("left", x, 17, same);
  return graph.add("add", left, graph.convolution("right", x, 17, {.kernel = 1}));
}

NodeId add_to_itself(Graph& graph, NodeId x) {
  const NodeId y = stem(graph, x, 5);
  return graph.add("add", y, y);
}

NodeId three_consumers(Graph& graph, NodeId x) {
  const NodeId y = stem(graph, x, 5);
  const NodeId a = graph.convolution("a", y, 5, same);
  const NodeId b = graph.convolution("b", y, 5, {.kernel = 1});
  return graph.add("add2", graph.add("add1", a, y), b);
}

NodeId bn_add(Graph& graph, NodeId x) {
  const NodeId y = stem(graph, x, 24);
  return graph.add("add", graph.batch_norm("bn", graph.convolution("conv", y, 24, same)), y);
}

NodeId bn_read_twice(Graph& graph, NodeId x) {
  const NodeId y = graph.batch_norm("bn", stem(graph, x, 17));
  return graph.add("add", y, graph.relu("relu", y));
}

NodeId conv_read_twice(Graph& graph, NodeId x) {
  const NodeId y = graph.convolution("conv", x, 5, same);
  return graph.add("add", graph.batch_norm("bn", y), y);
}

NodeId relu(Graph& graph, NodeId x) { return graph.relu("relu", stem(graph, x, 33)); }

NodeId bn_relu(Graph& graph, NodeId x) {
  return graph.relu("relu", graph.batch_norm("bn", stem(graph, x, 33)));
}

NodeId add_relu_read_twice(Graph& graph, NodeId x) {
  const NodeId y = stem(graph, x, 17);
  const NodeId z = graph.relu("relu", graph.add("add", graph.convolution("a", y, 17, same), y));
  return graph.add("last", z, graph.convolution("b", z, 17, {.kernel = 1}));
}

NodeId conv_bias_bn_relu_pool(Graph& graph, NodeId x) {
  x = graph.batch_norm("bn", graph.convolution("conv", x, 24, {3, 1, 1, true}));
  return graph.max_pool("maxpool", graph.relu("relu", x), {.kernel = 2, .stride = 2});
}

void append_patterns(std::vector<Network>& networks) {
  networks.push_back({"add_of_two", around({3, 8, 8}, add_of_two)});
  networks.push_back({"add_to_itself", around({3, 8, 8}, add_to_itself)});
  networks.push_back({"three_consumers", around({3, 5, 7}, three_consumers)});
  networks.push_back({"bn_add", around({3, 8, 8}, bn_add)});
  networks.push_back({"bn_read_twice", around({3, 9, 9}, bn_read_twice), false});
  networks.push_back({"conv_read_twice", around({3, 5, 7}, conv_read_twice)});
  networks.push_back({"relu", around({3, 5, 7}, relu), false});
  networks.push_back({"bn_relu", around({3, 9, 9}, bn_relu), false});
  networks.push_back({"add_relu_read_twice", around({3, 8, 8}, add_relu_read_twice), false});
  networks.push_back({"conv_bias_bn_relu_pool", around({3, 9, 9}, conv_bias_bn_relu_pool), false});
  networks.push_back({"block", block({3, 8, 8}, 17, 17, 1), false});
  networks.push_back({"block_wide", block({3, 8, 8}, 16, 16, 1), false});
  networks.push_back({"block_strided", block({3, 9, 9}, 16, 24, 2), false});
  networks.push_back({"block_projected", block({3, 5, 7}, 17, 33, 1), false});
}

/// Returns a network whose classifier reads all pixels of a feature map. The layout of the map
/// differs from the order of the features.
Graph flattened(core::ImageShape image, std::int64_t channels) {
  Graph graph("test");
  NodeId x = stem(graph, graph.input(image), channels);
  x = graph.flatten("flatten", x);
  x = graph.linear("linear", x, 7);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

/// Returns a network with dropout of a feature map and of a vector.
Graph dropout(core::ImageShape image, std::int64_t channels) {
  Graph graph("test");
  NodeId x = stem(graph, graph.input(image), channels);
  x = graph.append("drop1", graph::Dropout{.probability = 0.3f, .layer = 1}, {x});
  x = graph.convolution("mix", x, 6, {.kernel = 3, .stride = 2, .padding = 1});
  x = graph.linear("hidden", graph.global_average_pool("pool", x), 33);
  x = graph.append("drop2", graph::Dropout{.probability = 0.5f, .layer = 2}, {x});
  x = graph.linear("linear", x, 7);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

/// Returns a network with two linear layers and a ReLU between them.
Graph perceptron() {
  Graph graph("test");
  NodeId x = stem(graph, graph.input({3, 5, 7}), 17);
  x = graph.global_average_pool("pool", x);
  x = graph.relu("relu", graph.linear("hidden", x, 33));
  x = graph.linear("linear", x, 7);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

}  // namespace

std::vector<Network> small_networks() {
  std::vector<Network> networks;
  append_convolutions(networks);
  networks.push_back({"bn_1", batch_norm({3, 5, 7}, 1)});
  networks.push_back({"bn_17", batch_norm({3, 9, 9}, 17)});
  networks.push_back({"bn_33", batch_norm({3, 8, 8}, 33)});
  networks.push_back({"bn_5_of_256_pixels", batch_norm({3, 16, 16}, 5)});
  networks.push_back({"gn_6_in_3", group_norm({3, 5, 7}, 6, 3)});
  networks.push_back({"gn_17_in_17", group_norm({3, 9, 9}, 17, 17)});
  networks.push_back({"gn_36_in_4", group_norm({3, 8, 8}, 36, 4)});
  networks.push_back({"gn_5_in_1_of_256_pixels", group_norm({3, 16, 16}, 5, 1)});
  networks.push_back({"gn_add_relu", fused_group_norms(), false});
  networks.push_back({"pool2x2", max_pool({3, 8, 8}, 24, {.kernel = 2, .stride = 2}), false});
  networks.push_back({"pool2x2_odd", max_pool({3, 5, 7}, 5, {.kernel = 2, .stride = 2}), false});
  networks.push_back(
      {"pool3x3", max_pool({3, 9, 9}, 17, {.kernel = 3, .stride = 2, .padding = 1}), false});
  networks.push_back(
      {"pool3x3_odd", max_pool({3, 5, 7}, 33, {.kernel = 3, .stride = 2, .padding = 1}), false});
  networks.push_back({"pool3x3_overlapping",
                      max_pool({3, 8, 8}, 3, {.kernel = 3, .stride = 1, .padding = 1}), false});
  append_patterns(networks);
  networks.push_back({"label_smoothing", around({3, 5, 7}, add_to_itself, 0.1f)});
  networks.push_back({"perceptron", perceptron(), false});
  networks.push_back({"dropout_17", dropout({3, 5, 7}, 17)});
  networks.push_back({"dropout_24", dropout({3, 8, 8}, 24)});
  networks.push_back({"flatten_17", flattened({3, 5, 7}, 17)});
  networks.push_back({"flatten_3", flattened({3, 4, 4}, 3)});
  return networks;
}

}  // namespace lockstep::backend::test
