// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Dropout with counter-based random numbers, so that the mask can be computed again instead of
// being stored: Philox4x32-10, with the same numbers as core::philox4x32.

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

struct PhiloxBlock {
  std::uint32_t words[4];
};

/// Returns the 128 random bits for a counter and a key.
LOCKSTEP_HOST_DEVICE inline PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0,
                                                   std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.words[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.words[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.words[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.words[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// What the mask of a layer depends on. Image i of the batch has the index
/// `first_image + i * image_stride` in the global batch.
struct DropoutMask {
  std::uint32_t key0, key1;
  std::uint32_t layer;
  std::int64_t first_image, image_stride;
  float probability;
  const std::uint32_t* step;  ///< number of the training step, in device memory
};

/// Computes to = mask(from) / (1 - probability) on channels-last maps (images, pixels, channels).
/// An index is a group of four elements of an image, in the order (channel, pixel). `to` may alias
/// `from`.
/// Memory traffic: reads from (uncoalesced); writes to; from caches: mask.step.
template <class T>
struct Dropout {
  const T* from;
  T* to;
  DropoutMask mask;
  std::int64_t images, pixels, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t groups() const { return (pixels * channels + 3) / 4; }
  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return images * groups(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Division at = divide(index, groups());
    const std::int64_t image = mask.first_image + at.quotient * mask.image_stride;
    const PhiloxBlock numbers =
        philox4x32({{static_cast<std::uint32_t>(at.remainder), static_cast<std::uint32_t>(image),
                     *mask.step, mask.layer}},
                   mask.key0, mask.key1);
    const float scale = 1 / (1 - mask.probability);
    for (int i = 0; i < 4; ++i) {
      const std::int64_t element = at.remainder * 4 + i;
      if (element >= pixels * channels) return;
      const Division place = divide(element, pixels);  // (channel, pixel)
      const std::int64_t position =
          (at.quotient * pixels + place.remainder) * channels + place.quotient;
      const float uniform = static_cast<float>(numbers.words[i] >> 8) * 0x1p-24f;
      store(to, position, uniform >= mask.probability ? scale * load(from, position) : 0.0f);
    }
  }
};

}  // namespace lockstep::backend::cuda::kernels
