// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/graph/graph.hpp"

namespace lockstep::graph {

/// A single layer with the shape of its input, as a text such as conv:3-128,k3,s1,p1@256x224x224
/// describes it. Convolutions have a bias.
struct Layer {
  std::string text;  ///< as it was given
  Operation operation;
  core::ImageShape input;   ///< of one image
  core::ImageShape output;  ///< of one image
  std::int64_t batch = 0;   ///< N
};

/// Returns the forms of the text of a layer, for example conv:IN-OUT,kK,sS,pP@NxHxW, for messages
/// and `--help`. N is the number of images, C, IN and OUT are channels or features, H and W pixels,
/// K, S and P the kernel size, the stride [conv: 1, maxpool: K] and the padding [0], in any order.
std::vector<std::string> layer_forms();

/// Parses the text of one layer. Throws `Error` (usage), quoting the text, if it is not a layer.
Layer parse_layer(const std::string& text);

/// Parses the texts of several layers, separated by '+'. Throws as `parse_layer`.
std::vector<Layer> parse_layers(const std::string& text);

/// Returns a network that contains the layer `depth` times in a row, in the nodes "layer.0",
/// "layer.1", ... Its images have one channel; a convolution with 1x1 kernels, and before a linear
/// layer another linear layer, makes the input of the first layer from them, so that this input
/// needs a gradient as inside a network. A single convolution of at most 4 channels reads the
/// images itself, as the first layer of a network: its input needs no gradient. Global average
/// pooling and the loss follow the last layer. Throws `Error` (usage) if `depth` is above 1 and the
/// output of the layer has another shape than its input.
Graph stack_layers(const Layer& layer, std::int64_t depth);

}  // namespace lockstep::graph
