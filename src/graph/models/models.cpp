#include "models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/core/error.hpp"

namespace lockstep::graph {

namespace {

struct Model {
  std::string_view name;
  Graph (*make)(const ModelOptions&);
};

constexpr std::array models{
    Model{"resnet18-cifar", resnet18_cifar},
    Model{"resnet18-imagenet", resnet18_imagenet},
    Model{"resnet34-cifar", resnet34_cifar},
    Model{"vgg11", vgg11},
    Model{"vgg13", vgg13},
    Model{"vgg16", vgg16},
    Model{"vgg16-imagenet", vgg16_imagenet},
    Model{"vgg19", vgg19},
};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : models) names.emplace_back(model.name);
  return names;
}

Graph make_model(const std::string& name, const ModelOptions& options) {
  const auto model = std::ranges::find(models, name, &Model::name);
  if (model != models.end()) return model->make(options);
  core::fail(core::ExitStatus::usage, fmt::format("unknown model '{}'; there are: {}", name,
                                                  fmt::join(model_names(), ", ")));
}

}  // namespace lockstep::graph
