// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
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
  std::string_view kind;
  const char* rest;
  Operation (*operation)(const Numbers&);
};
constexpr std::array forms{
    Form{"relu", "@NxCxHxW", [](const Numbers&) -> Operation { return Relu{}; }},
    Form{"maxpool", ":kK,sS,pP@NxCxHxW",
         [](const Numbers& numbers) -> Operation {
           const std::int64_t kernel = get(numbers, "K");
           return MaxPool{kernel, get(numbers, "S", kernel), get(numbers, "P", 0)};
         }},
    Form{"conv", ":IN-OUT,kK,sS,pP@NxHxW",
         [](const Numbers& numbers) -> Operation {
           return Convolution{.kernel = get(numbers, "K"),
                              .stride = get(numbers, "S"),
                              .padding = get(numbers, "P", 0),
                              .has_bias = true,
                              .out_channels = get(numbers, "OUT")};
         }},
    Form{"linear", ":IN-OUT@N",
         [](const Numbers& numbers) -> Operation { return Linear{get(numbers, "OUT")}; }},
    Form{"batchnorm", "@NxCxHxW", [](const Numbers&) -> Operation { return BatchNorm{}; }},
};

/// Throws `Error` (usage) with the reason and the forms of layers.
[[noreturn]] void refuse(std::string_view text, std::string_view reason) {
  core::fail(core::ExitStatus::usage, fmt::format("'{}' is not a layer: {}; a layer is one of {}",
                                                  text, reason, fmt::join(layer_forms(), ", ")));
}

/// Returns the numbers in the text of a layer without its kind, `rest`, whose attributes may have
/// any order; refuses another form.
Numbers match(const std::string& text, std::string rest, std::string form) {
  static const std::regex name("[A-Z]+"), any_part("[,@][^,@]+");
  // In another order, the attribute that follows the colon follows a comma.
  if (rest.starts_with(':')) rest[0] = ',';
  std::ranges::replace(form, ':', ',');
  Numbers numbers;
  for (std::sregex_iterator each(form.begin(), form.end(), any_part), end; each != end; ++each) {
    const std::string part = each->str();
    const std::string pattern = std::regex_replace(part, name, "([0-9]{1,18})");
    std::smatch found;
    if (std::regex_search(rest, found, std::regex(pattern + (part[0] == '@' ? "$" : "(?=[,@])")))) {
      std::size_t group = 1;
      for (std::sregex_iterator at(part.begin(), part.end(), name); at != end; ++at, ++group)
        numbers[at->str()] = std::stoll(found[group]);
      rest.erase(static_cast<std::size_t>(found.position()), found.str().size());
    } else if (part != ",sS" && part != ",pP") {
      refuse(text, fmt::format("{} is missing or has another form", part.substr(1)));
    }
  }
  if (!rest.empty()) refuse(text, fmt::format("'{}' is unexpected", rest));
  return numbers;
}

/// Refuses numbers out of range. Those of tensors fit in 32 bits, as libraries require.
void require_range(const Layer& layer, const Numbers& numbers) {
  const auto* const pool = layer.operation.get_if<MaxPool>();
  for (const auto& [name, value] : numbers) {
    const std::int64_t least = name == "P" ? 0 : 1;
    std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (name == "K" || name == "S" || name == "P") most = most_attribute;
    if (name == "K" && pool != nullptr) most = most_pool_kernel;
    if (value < least || value > most)
      refuse(layer.text, fmt::format("{} is {}, not from {} to {}", name, value, least, most));
  }
  if (pool != nullptr && 2 * pool->padding > pool->kernel)
    refuse(layer.text, "its padding is above half its kernel");
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
  for (const Form& form : forms) all.push_back(fmt::format("{}{}", form.kind, form.rest));
  return all;
}

Layer parse_layer(const std::string& text) {
  const std::string kind = text.substr(0, text.find_first_of(":@"));
  const auto* const form = std::ranges::find(forms, kind, &Form::kind);
  if (form == forms.end()) refuse(text, fmt::format("'{}' is no kind of layer", kind));
  const Numbers numbers = match(text, text.substr(kind.size()), form->rest);
  Layer layer{
      .text = text,
      .operation = form->operation(numbers),
      .input = {get(numbers, "C", get(numbers, "IN")), get(numbers, "H"), get(numbers, "W")},
      .output = {},
      .batch = get(numbers, "N")};
  require_range(layer, numbers);
  layer.output = layer.operation.output({&layer.input, 1});
  if (layer.output.is_empty()) refuse(text, "its kernel is larger than its input");
  require_size(layer);
  return layer;
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
