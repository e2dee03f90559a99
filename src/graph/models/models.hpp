#pragma once

#include "lockstep/graph/models.hpp"

namespace lockstep::graph {

/// Returns ResNet-18 (He et al., 2015) for 32x32 images: the first convolution is 3x3 with stride
/// 1, without a max-pool. Modules have the names of the widely used CIFAR implementation
/// ("shortcut", "linear").
Graph resnet18_cifar(const ModelOptions& options);

/// Returns ResNet-34, which has more blocks per stage; otherwise as `resnet18_cifar`.
Graph resnet34_cifar(const ModelOptions& options);

/// Returns ResNet-18 for ImageNet: the first convolution is 7x7 with stride 2, followed by a 3x3
/// max-pool. Modules have torchvision's names ("downsample", "fc").
Graph resnet18_imagenet(const ModelOptions& options);

/// Return VGG-11, -13, -16 and -19 (Simonyan and Zisserman, 2014) with batch norm and one linear
/// layer, the variant used for CIFAR-10. Modules are named "features.N" and "classifier". They
/// throw `Error` (usage) if the image is too small.
Graph vgg11(const ModelOptions& options);
Graph vgg13(const ModelOptions& options);
Graph vgg16(const ModelOptions& options);
Graph vgg19(const ModelOptions& options);

/// Returns VGG-16 for ImageNet, without batch norm and with a classifier of three linear layers and
/// dropout. Modules have torchvision's names ("features.N", "classifier.N"). Throws `Error` (usage)
/// if the images are not 224 x 224.
Graph vgg16_imagenet(const ModelOptions& options);

}  // namespace lockstep::graph
