#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../fusion.hpp"
#include "context.hpp"

// One maker per operation; each stands in the file of its name, the twin of the reference's.

namespace lockstep::backend::cpu {

std::unique_ptr<Operation> make_convolution(const Context& context, const Step& step, Ports ports);
std::unique_ptr<Operation> make_batch_norm(const Context& context, const Step& step, Ports ports);
std::unique_ptr<Operation> make_relu(const Context& context, Ports ports);
std::unique_ptr<Operation> make_add(const Context& context, Ports ports);
std::unique_ptr<Operation> make_max_pool(const Context& context, const Step& step, Ports ports);
std::unique_ptr<Operation> make_average_pool(const Context& context, Ports ports);
std::unique_ptr<Operation> make_linear(const Context& context, const Step& step, Ports ports);

/// Softmax cross-entropy over the first `images` rows of the logits; it also holds the labels and
/// the result.
class Loss : public Operation {
 public:
  using Operation::Operation;
  virtual void set_labels(std::span<const std::int32_t> labels) = 0;
  virtual BatchResult result() const = 0;
};
std::unique_ptr<Loss> make_softmax_cross_entropy(const Context& context, const Step& step,
                                                 Ports ports);

/// The layouts that oneDNN's convolutions like best.
struct PreferredLayouts {
  MapLayout activations = MapLayout::planar;
  MapLayout images = MapLayout::planar;
};
PreferredLayouts preferred_layouts(const Context& context);

/// Normalises uint8 images (n, channels, height, width), n <= map.images, into the map.
class ImageNormaliser {
 public:
  ImageNormaliser(const Normalisation& normalisation, std::int64_t channels, int threads);
  void run(std::span<const std::uint8_t> images, const FeatureMap& map) const;

 private:
  template <class T>
  void run_as(std::span<const std::uint8_t> images, const FeatureMap& map) const;

  std::vector<float> table_;  ///< (channel, 256): the value of each byte
  int threads_;
};

}  // namespace lockstep::backend::cpu
