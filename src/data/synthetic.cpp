#include "synthetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "lockstep/core/random.hpp"

namespace lockstep::data::synthetic {

namespace {

constexpr core::ImageShape image{3, 32, 32};
constexpr std::size_t side = 32;
constexpr std::size_t pixels = side * side;
constexpr std::uint32_t classes = 10;

// Names of the classes in the order of the labels; `covers` defines their shapes.
constexpr std::array<const char*, classes> class_names{
    "disc", "ring", "square", "frame", "plus", "cross", "rows", "columns", "triangle", "checkers"};

// Returns whether the shape of class `label` covers the point (u, v) of its box [-1, 1] x [-1, 1];
// v points down. The function is even in u, so a mirrored image keeps its class.
bool covers(std::uint32_t label, float u, float v) {
  const float a = std::fabs(u);
  const float b = std::fabs(v);
  const float radius2 = u * u + v * v;
  const float reach = std::max(a, b);
  if (reach > 1) return false;
  // Stripes: three periods across the box, symmetric about its centre.
  const auto band = [](float distance) { return static_cast<int>(distance * 3 + 0.5f) % 2 == 0; };
  switch (label) {
    case 0: return radius2 < 1;
    case 1: return radius2 < 1 && radius2 > 0.4f;
    case 2: return reach < 0.85f;
    case 3: return reach > 0.6f;
    case 4: return std::min(a, b) < 0.3f;
    case 5: return std::fabs(a - b) < 0.35f;
    case 6: return band(b);
    case 7: return band(a);
    case 8: return 2 * a < v + 1;
    default: return band(a) == band(b);
  }
}

float between(core::Random& random, float low, float high) {
  return low + (high - low) * random.uniform();
}

void draw(std::uint32_t label, core::Random random, std::span<std::uint8_t> to) {
  const float radius = between(random, 9, 11);
  const float centre_x = between(random, 13, 19);
  const float centre_y = between(random, 13, 19);

  // Foreground and background differ clearly in each channel; the shape is brighter with
  // probability 3/4. The colours are independent of the class, so colour or brightness alone does
  // not determine it.
  constexpr int noise = 24;
  std::array<int, 3> background{};
  std::array<int, 3> foreground{};
  for (std::size_t c = 0; c < 3; ++c) {
    const float contrast = between(random, 60, 120) * (random.below(4) == 0 ? -1.0f : 1.0f);
    const float middle = between(random, 90, 165);
    background[c] = static_cast<int>(middle - contrast / 2) - noise;
    foreground[c] = static_cast<int>(middle + contrast / 2) - noise;
  }

  for (std::size_t y = 0; y < side; ++y) {
    const float v = (static_cast<float>(y) + 0.5f - centre_y) / radius;
    for (std::size_t x = 0; x < side; ++x) {
      const float u = (static_cast<float>(x) + 0.5f - centre_x) / radius;
      const auto& colour = covers(label, u, v) ? foreground : background;
      const std::uint32_t bits = random.bits();  // one byte of noise per channel
      for (std::size_t c = 0; c < 3; ++c) {
        const int byte = static_cast<int>((bits >> (8 * c)) & 0xffu);
        to[c * pixels + y * side + x] =
            static_cast<std::uint8_t>(std::clamp(colour[c] + byte * (2 * noise) / 255, 0, 255));
      }
    }
  }
}

}  // namespace

Dataset generate(Split split, std::size_t samples, std::uint64_t seed,
                 core::ProgressMonitor* progress) {
  Dataset set{.image = image,
              .images = std::vector<std::uint8_t>(samples * 3 * pixels),
              .labels = std::vector<std::uint8_t>(samples),
              .class_names = {class_names.begin(), class_names.end()}};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const auto label = static_cast<std::uint32_t>(sample % classes);
    set.labels[sample] = static_cast<std::uint8_t>(label);
    draw(label,
         core::Random(seed, core::RandomStream::synthetic, sample,
                      static_cast<std::uint32_t>(split)),
         std::span(set.images).subspan(sample * 3 * pixels, 3 * pixels));
    if (sample % 1000 == 0) core::report_progress(progress);
  }
  return set;
}

}  // namespace lockstep::data::synthetic
