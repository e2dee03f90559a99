#pragma once

#include <cstdint>
#include <memory>

#include "../fusion.hpp"
#include "context.hpp"

// One maker per operation; each stands in the file of its name, the twin of the CPU's and of the
// reference's.

namespace lockstep::backend::cuda {

std::unique_ptr<Operation> make_convolution(const Context& context, const Step& step, Ports ports);
std::unique_ptr<Operation> make_batch_norm(const Context& context, const Step& step, Ports ports);
std::unique_ptr<Operation> make_relu(const Context& context, Ports ports);
std::unique_ptr<Operation> make_add(const Context& context, Ports ports);
std::unique_ptr<Operation> make_max_pool(const Context& context, const Step& step, Ports ports);
std::unique_ptr<Operation> make_average_pool(const Context& context, Ports ports);
std::unique_ptr<Operation> make_linear(const Context& context, const Step& step, Ports ports);

/// to += from.
void add_into(const Context& context, const FeatureMap& from, const FeatureMap& to);

/// Labels of a batch in device memory, and how many of its images there are.
struct DeviceLabels {
  const std::int32_t* labels = nullptr;
  const std::int32_t* source = nullptr;  ///< which of the labels is each image's; null: the i-th
  std::int64_t images = 0;
};

/// Softmax cross-entropy; its result goes to `DeviceParameters::result`.
class Loss : public Operation {
 public:
  using Operation::Operation;
  virtual void set_labels(const DeviceLabels& labels) = 0;
};
std::unique_ptr<Loss> make_softmax_cross_entropy(const Context& context, const Step& step,
                                                 Ports ports);

}  // namespace lockstep::backend::cuda
