#include "models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.hpp"

namespace lockstep::graph {

std::vector<std::string> model_names() {
  return {"resnet18-cifar", "resnet18-imagenet", "vgg11", "vgg16"};
}

Graph make_model(const std::string& name, const ModelOptions& options) {
  if (name == "resnet18-cifar") return resnet18_cifar(options);
  if (name == "resnet18-imagenet") return resnet18_imagenet(options);
  if (name == "vgg11") return vgg(options, 11);
  if (name == "vgg16") return vgg(options, 16);
  core::fail(core::ExitStatus::usage, fmt::format("unknown model '{}'; there are: {}", name,
                                                  fmt::join(model_names(), ", ")));
}

}  // namespace lockstep::graph
