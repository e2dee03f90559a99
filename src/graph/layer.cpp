// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {

namespace {

constexpr std::int64_t most_attribute = 1024;  // kernel, stride, padding
constexpr std::int64_t most_pool_kernel = 15;  // the place in the window fits in a byte

/// The numbers in the text of a layer, by their names in its form.
using Numbers = std::map<std::string, std::int64_t>;

/// Returns the number with this name, or `otherwise` if it was left out.
std::int64_t get(const Numbers& numbers, const char* name, std::int64_t otherwise = 1) {
  const auto found = numbers.find(name);
  return found == numbers.end() ? otherwise : found->second;
}

/// The texts that describe a layer. Names in capitals stand for numbers; ",sS" and ",pP" may be
/// left out.
struct Form {
  const char* syntax;
  Operation (*operation)(const Numbers&);
};
constexpr std::array forms{
    Form{"relu@NxCxHxW", [](const Numbers&) -> Operation { return Relu{}; }},
    Form{"maxpool:kK,sS,pP@NxCxHxW",
         [](const Numbers& numbers) -> Operation {
           const std::int64_t kernel = get(numbers, "K");
           return MaxPool{kernel, get(numbers, "S", kernel), get(numbers, "P", 0)};
         }},
    Form{"conv:IN-OUT,kK,sS,pP@NxHxW",
         [](const Numbers& numbers) -> Operation {
           return Convolution{.kernel = get(numbers, "K"),
                              .stride = get(numbers, "S"),
                              .padding = get(numbers, "P", 0),
                              .has_bias = true,
                              .out_channels = get(numbers, "OUT")};
         }},
    Form{"linear:IN-OUT@N",
         [](const Numbers& numbers) -> Operation { return Linear{get(numbers, "OUT")}; }},
    Form{"batchnorm@NxCxHxW", [](const Numbers&) -> Operation { return BatchNorm{}; }},
};

/// Throws `Error` (usage) with the reason and the forms of layers.
[[noreturn]] void refuse(std::string_view text, std::string_view reason) {
  core::fail(core::ExitStatus::usage, fmt::format("'{}' is not a layer: {}; a layer is one of {}",
                                                  text, reason, fmt::join(layer_forms(), ", ")));
}

/// Returns the numbers in `text`; nothing if it has another form.
std::optional<Numbers> match(const std::string& text, const std::string& form) {
  static const std::regex name("[A-Z]+"), optional(",[sp][SP]");
  const std::string pattern =
      std::regex_replace(std::regex_replace(form, optional, "(?:$&)?"), name, "([0-9]{1,10})");
  std::smatch found;
  if (!std::regex_match(text, found, std::regex(pattern))) return std::nullopt;
  Numbers numbers;
  std::size_t group = 1;
  for (std::sregex_iterator at(form.begin(), form.end(), name), end; at != end; ++at, ++group) {
    if (found[group].matched) numbers[at->str()] = std::stoll(found[group]);
  }
  return numbers;
}

/// Refuses numbers out of range. Those of tensors fit in 32 bits, as libraries require.
void require_range(const Layer& layer, const Numbers& numbers) {
  for (const auto& [name, value] : numbers) {
    const bool is_attribute = name == "K" || name == "S" || name == "P";
    const std::int64_t least = name == "P" ? 0 : 1;
    const std::int64_t most =
        is_attribute ? most_attribute : std::numeric_limits<std::int32_t>::max();
    if (value < least || value > most)
      refuse(layer.text, fmt::format("{} is {}, not from {} to {}", name, value, least, most));
  }
  const auto* const pool = layer.operation.get_if<MaxPool>();
  if (pool == nullptr) return;
  if (pool->kernel > most_pool_kernel || 2 * pool->padding > pool->kernel)
    refuse(layer.text, fmt::format("K is above {}, or P is above half of K", most_pool_kernel));
}

/// Returns whether the layer is the first of a network: a convolution of images. Backends have
/// kernels for so few channels only if these are images, which need no gradient.
bool reads_images(const Layer& layer) {
  constexpr std::int64_t most_image_channels = 4;
  return layer.operation.is<Convolution>() && layer.input.channels <= most_image_channels;
}

/// Refuses a layer whose tensors have more values than any device can hold, so that sizes in bytes
/// fit in 64 bits. Libraries compute some sizes of one image, and of the weights, in 32 bits.
void require_size(const Layer& layer) {
  constexpr double most_values = 0x1p40, most_values_of_one = 0x1p31;
  const auto values = [&](const core::ImageShape& shape) {
    return static_cast<double>(layer.batch) * static_cast<double>(shape.channels) *
           static_cast<double>(shape.height) * static_cast<double>(shape.width);
  };
  double most_weights = 0;
  for (const ParameterSpec& parameter : layer.operation.parameters({&layer.input, 1})) {
    double weights = 1;
    for (const std::int64_t extent : parameter.shape) weights *= static_cast<double>(extent);
    most_weights = std::max(most_weights, weights);
  }
  const double most = std::max(values(layer.input), values(layer.output));
  if (most > most_values) refuse(layer.text, "one of its tensors has more than 2^40 values");
  if (std::max(most / static_cast<double>(layer.batch), most_weights) >= most_values_of_one)
    refuse(layer.text, "its weights, or its values for one image, are 2^31 or more");
}

}  // namespace

std::vector<std::string> layer_forms() {
  std::vector<std::string> all;
  for (const Form& form : forms) all.emplace_back(form.syntax);
  return all;
}

Layer parse_layer(const std::string& text) {
  for (const Form& form : forms) {
    const auto numbers = match(text, form.syntax);
    if (!numbers) continue;
    Layer layer{
        .text = text,
        .operation = form.operation(*numbers),
        .input = {get(*numbers, "C", get(*numbers, "IN")), get(*numbers, "H"), get(*numbers, "W")},
        .output = {},
        .batch = get(*numbers, "N")};
    require_range(layer, *numbers);
    layer.output = layer.operation.output({&layer.input, 1});
    if (layer.output.is_empty()) refuse(text, "its kernel is larger than its input");
    require_size(layer);
    return layer;
  }
  refuse(text, "it has another form");
}

std::vector<Layer> parse_layers(const std::string& text) {
  std::vector<Layer> layers;
  std::istringstream parts(text + "+");  // an empty text is one layer, which is refused
  for (std::string part; std::getline(parts, part, '+');) layers.push_back(parse_layer(part));
  return layers;
}

Graph stack_layers(const Layer& layer, std::int64_t depth) {
  core::check(depth >= 1, "a stack has at least one layer");
  if (depth > 1 && layer.input != layer.output) {
    core::fail(
        core::ExitStatus::usage,
        fmt::format("'{}' cannot be stacked, because its output is {} and its input {}; use a "
                    "layer that keeps its shape",
                    layer.text, text(layer.output), text(layer.input)));
  }
  Graph graph(layer.text);
  const bool is_vector = layer.operation.traits().reads_vectors;
  NodeId x = 0;
  if (depth == 1 && reads_images(layer)) {
    x = graph.input(layer.input);
  } else {
    x = graph.input({1, layer.input.height, layer.input.width});
    // A linear layer reads no images, because their channels may be padded.
    x = graph.convolution("source", x, is_vector ? 8 : layer.input.channels, {.kernel = 1});
    if (is_vector) x = graph.linear("features", x, layer.input.channels);
  }
  for (std::int64_t i = 0; i < depth; ++i)
    x = graph.append(fmt::format("layer.{}", i), layer.operation, {x});
  if (!is_vector) x = graph.global_average_pool("pool", x);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

}  // namespace lockstep::graph
