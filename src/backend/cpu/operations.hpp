#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../fusion.hpp"
#include "context.hpp"

// One factory function per operation. Each is defined in the file named after the operation, like
// its counterpart in src/backend/reference.

namespace lockstep::backend::cpu {

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

/// Softmax cross-entropy over the leading rows of the logits, one per label. Also stores the labels
/// and the result.
class Loss : public Operation {
 public:
  using Operation::Operation;
  virtual void set_labels(std::span<const std::int32_t> labels) = 0;
  virtual BatchResult result() const = 0;
};
std::unique_ptr<Loss> make_softmax_cross_entropy(const Context& context, const Step& step,
                                                 Operands operands);

/// Layouts of feature maps that suit the convolutions of a plan: those that oneDNN prefers, or that
/// of the AMX kernels.
struct PreferredLayouts {
  MapLayout activations = MapLayout::planar;
  MapLayout images = MapLayout::planar;
};
PreferredLayouts preferred_layouts(const Context& context);

/// Converts uint8 images (n, channels, height, width), n <= map.images, to normalised values in a
/// feature map.
class ImageNormaliser {
 public:
  ImageNormaliser(const Normalisation& normalisation, std::int64_t channels, int threads);
  void run(std::span<const std::uint8_t> images, const FeatureMap& map) const;

 private:
  template <class T>
  void run_as(std::span<const std::uint8_t> images, const FeatureMap& map) const;

  std::vector<float> table_;  ///< (channel, 256): the normalised value of each byte
  int threads_;
};

}  // namespace lockstep::backend::cpu
