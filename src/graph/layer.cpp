// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t most_attribute = 1024;  // kernel, stride, padding
constexpr std::int64_t most_pool_kernel = 15;  // the place in the window fits in a byte

/// Throws `Error` (usage) with the reason and the forms of layers.
[[noreturn]] void refuse(std::string_view text, std::string_view reason);

/// Returns the parts of `text` between the separators; one part if there is none.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Returns the number; nothing if the text is not a whole number from 0 to 2^31 - 1.
std::optional<std::int64_t> number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// The parts of a layer's text: KIND:ATTRIBUTES@SIZES.
class Description {
 public:
  explicit Description(std::string_view text) : text_(text) {
    const std::size_t at = text.find('@');
    if (at == std::string_view::npos) refuse(text, "it has no '@' before its sizes");
    const std::string_view head = text.substr(0, at);
    const std::size_t colon = head.find(':');
    kind_ = head.substr(0, colon);
    for (const std::string_view size : split(text.substr(at + 1), 'x')) {
      const auto value = number(size);
      if (!value || *value < 1) refuse(text, fmt::format("'{}' is not a size of at least 1", size));
      sizes_.push_back(*value);
    }
    if (colon == std::string_view::npos) return;
    for (const std::string_view part : split(head.substr(colon + 1), ',')) read_attribute(part);
  }

  std::string_view text() const { return text_; }
  std::string_view kind() const { return kind_; }

  /// Returns the sizes; refuses the layer if there are not `count` of them.
  const Numbers& sizes(std::size_t count) const {
    if (sizes_.size() != count)
      refuse(text_, fmt::format("{} sizes follow the '@', not {}", sizes_.size(), count));
    return sizes_;
  }

  /// Returns the channels or features before and after the layer, and removes them.
  std::pair<std::int64_t, std::int64_t> channels() {
    if (channels_.size() != 2) refuse(text_, "IN-OUT, its channels or features, is missing");
    const std::pair result{channels_[0], channels_[1]};
    channels_.clear();
    return result;
  }

  /// Returns the value of an attribute such as k3, and removes it.
  std::int64_t take(char name, std::int64_t least, std::int64_t most,
                    std::optional<std::int64_t> otherwise = {}) {
    const auto found = attributes_.find(name);
    if (found == attributes_.end()) {
      if (!otherwise) refuse(text_, fmt::format("its attribute {}N is missing", name));
      return *otherwise;
    }
    const std::int64_t value = found->second;
    if (value < least || value > most)
      refuse(text_, fmt::format("{}{} is not from {} to {}", name, value, least, most));
    attributes_.erase(found);
    return value;
  }

  /// Refuses the layer if it has an attribute that was not taken.
  void require_end() const {
    if (!attributes_.empty())
      refuse(text_, fmt::format("{} has no attribute '{}'", kind_, attributes_.begin()->first));
    if (!channels_.empty()) refuse(text_, fmt::format("{} has no IN-OUT", kind_));
  }

 private:
  void read_attribute(std::string_view part) {
    if (const std::size_t dash = part.find('-'); dash != std::string_view::npos) {
      const auto in = number(part.substr(0, dash)), out = number(part.substr(dash + 1));
      if (!in || !out || *in < 1 || *out < 1 || !channels_.empty())
        refuse(text_, fmt::format("'{}' is not IN-OUT with sizes of at least 1", part));
      channels_ = {*in, *out};
      return;
    }
    const auto value = part.empty() ? std::nullopt : number(part.substr(1));
    constexpr std::string_view names = "ksp";
    const bool is_known = value && names.find(part[0]) != names.npos;
    if (!is_known || !attributes_.emplace(part[0], *value).second)
      refuse(text_, fmt::format("'{}' is neither IN-OUT nor one of kN, sN and pN", part));
  }

  std::string_view text_, kind_;
  Numbers sizes_, channels_;
  std::map<char, std::int64_t> attributes_;
};

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

/// Returns a layer without its text and its output.
Layer layer_of(Operation operation, core::ImageShape input, std::int64_t batch) {
  return {
      .text = {}, .operation = std::move(operation), .input = input, .output = {}, .batch = batch};
}

/// Returns the operation with an input of N x C x H x W.
Layer on_maps(Operation operation, Description& description) {
  const Numbers& sizes = description.sizes(4);
  return layer_of(std::move(operation), {sizes[1], sizes[2], sizes[3]}, sizes[0]);
}

Layer parse_max_pool(Description& description) {
  MaxPool pool;
  pool.kernel = description.take('k', 1, most_pool_kernel);
  pool.stride = description.take('s', 1, most_attribute, pool.kernel);
  pool.padding = description.take('p', 0, most_attribute, 0);
  if (2 * pool.padding > pool.kernel)
    refuse(description.text(), "its padding is above half its kernel");
  return on_maps(pool, description);
}

Layer parse_convolution(Description& description) {
  const auto [in, out] = description.channels();
  Convolution convolution{.has_bias = true, .out_channels = out};
  convolution.kernel = description.take('k', 1, most_attribute);
  convolution.stride = description.take('s', 1, most_attribute, 1);
  convolution.padding = description.take('p', 0, most_attribute, 0);
  const Numbers& sizes = description.sizes(3);
  return layer_of(convolution, {in, sizes[1], sizes[2]}, sizes[0]);
}

Layer parse_linear(Description& description) {
  const auto [in, out] = description.channels();
  return layer_of(Linear{out}, {in, 1, 1}, description.sizes(1)[0]);
}

/// The texts that describe a layer.
struct Form {
  std::string_view kind;
  std::string_view rest;
  Layer (*parse)(Description&);
};
constexpr std::array forms{
    Form{"relu", "@NxCxHxW", [](Description& text) { return on_maps(Relu{}, text); }},
    Form{"maxpool", ":kK,sS,pP@NxCxHxW", parse_max_pool},
    Form{"conv", ":IN-OUT,kK,sS,pP@NxHxW", parse_convolution},
    Form{"linear", ":IN-OUT@N", parse_linear},
    Form{"batchnorm", "@NxCxHxW", [](Description& text) { return on_maps(BatchNorm{}, text); }},
};

[[noreturn]] void refuse(std::string_view text, std::string_view reason) {
  core::fail(core::ExitStatus::usage, fmt::format("'{}' is not a layer: {}; a layer is one of {}",
                                                  text, reason, fmt::join(layer_forms(), ", ")));
}

}  // namespace

std::vector<std::string> layer_forms() {
  std::vector<std::string> all;
  for (const Form& form : forms) all.push_back(fmt::format("{}{}", form.kind, form.rest));
  return all;
}

Layer parse_layer(std::string_view text) {
  Description description(text);
  const auto form = std::ranges::find(forms, description.kind(), &Form::kind);
  if (form == forms.end())
    refuse(text, fmt::format("'{}' is no kind of layer", description.kind()));
  Layer layer = form->parse(description);
  description.require_end();
  layer.text = text;
  layer.output = layer.operation.output({&layer.input, 1});
  if (layer.output.is_empty()) refuse(text, "its kernel is larger than its input");
  require_size(layer);
  return layer;
}

std::vector<Layer> parse_layers(std::string_view text) {
  std::vector<Layer> layers;
  for (const std::string_view part : split(text, '+')) layers.push_back(parse_layer(part));
  return layers;
}

Graph stack_layers(const Layer& layer, std::int64_t depth) {
  core::check(depth >= 1, "a stack has at least one layer");
  if (depth > 1 && layer.input != layer.output) {
    core::fail(
        core::ExitStatus::usage,
        fmt::format("'{}' cannot be stacked, because its output is {}x{}x{} and its input "
                    "{}x{}x{}; use a layer that keeps its shape",
                    layer.text, layer.output.channels, layer.output.height, layer.output.width,
                    layer.input.channels, layer.input.height, layer.input.width));
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
