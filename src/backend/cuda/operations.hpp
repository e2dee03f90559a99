#pragma once

#include <cstdint>
#include <memory>

#include "../fusion.hpp"
#include "context.hpp"

// Factory functions, one per operation. Each is defined in the source file named after the
// operation; the CPU backend and the reference backend have counterparts of the same name.

namespace lockstep::backend::cuda {

std::unique_ptr<Operation> make_convolution(const Context& context, const Step& step,
                                            Operands operands);
std::unique_ptr<Operation> make_batch_norm(const Context& context, const Step& step,
                                           Operands operands);
std::unique_ptr<Operation> make_relu(const Context& context, Operands operands);
std::unique_ptr<Operation> make_add(const Context& context, Operands operands);
std::unique_ptr<Operation> make_max_pool(const Context& context, const Step& step,
                                         Operands operands);
std::unique_ptr<Operation> make_average_pool(const Context& context, Operands operands);
std::unique_ptr<Operation> make_linear(const Context& context, const Step& step, Operands operands);

/// Computes `to += from` element-wise.
void add_into(const Context& context, const FeatureMap& from, const FeatureMap& to);

/// Labels of a batch in device memory, and the number of images in the batch.
struct DeviceLabels {
  const std::int32_t* labels = nullptr;
  /// Index into `labels` of each image; null: i for image i.
  const std::int32_t* source = nullptr;
  std::int64_t images = 0;
};

/// Softmax cross-entropy. Writes the sums over the batch to `DeviceParameters::result`.
class Loss : public Operation {
 public:
  using Operation::Operation;
  virtual void set_labels(const DeviceLabels& labels) = 0;
};
std::unique_ptr<Loss> make_softmax_cross_entropy(const Context& context, const Step& step,
                                                 Operands operands);

}  // namespace lockstep::backend::cuda
