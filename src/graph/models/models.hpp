#pragma once

#include "lockstep/graph/models.hpp"

namespace lockstep::graph {

/// ResNet-18 (He et al., 2015) for 32x32 images: 3x3 stem of stride 1, no max-pool; names of the
/// CIFAR network in common use ("shortcut", "linear").
Graph resnet18_cifar(const ModelOptions& options);

/// ResNet-18 for ImageNet: 7x7 stem of stride 2 and a 3x3 max-pool; torchvision's names
/// ("downsample", "fc").
Graph resnet18_imagenet(const ModelOptions& options);

/// VGG-11, -16 (Simonyan and Zisserman, 2014) with batch norm and one linear layer, as used for
/// CIFAR-10: "features.N" and "classifier".
Graph vgg(const ModelOptions& options, int depth);

}  // namespace lockstep::graph
