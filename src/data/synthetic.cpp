// SPDX-License-Identifier: BSD-3-Clause
#include "synthetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::data::synthetic {

namespace {

constexpr std::int32_t shapes = 10;  // that `covers` defines

// Returns the number of decimal digits of the largest label, which is the number of shapes of an
// image.
std::size_t count_digits(std::int32_t classes) {
  std::size_t digits = 1;
  for (std::int32_t largest = classes - 1; largest >= shapes; largest /= shapes) ++digits;
  return digits;
}

// Returns whether the shape number `shape` covers the point (u, v) of its box [-1, 1] x [-1, 1]; v
// points down. The function is even in u, so a mirrored image keeps its class.
bool covers(std::int32_t shape, float u, float v) {
  const float a = std::fabs(u);
  const float b = std::fabs(v);
  const float radius2 = u * u + v * v;
  const float reach = std::max(a, b);
  if (reach > 1) return false;
  // Stripes: three periods across the box, symmetric about its centre.
  const auto band = [](float distance) { return static_cast<int>(distance * 3 + 0.5f) % 2 == 0; };
  switch (shape) {
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

// One shape and its place in the image, in pixels.
struct Placement {
  std::int32_t shape;
  float centre_x, centre_y, radius_x, radius_y;

  bool covers(float x, float y) const {
    return synthetic::covers(shape, (x - centre_x) / radius_x, (y - centre_y) / radius_y);
  }
};

// Places one shape for each decimal digit of `label`, the last digit at the top. Each shape has an
// equal part of the height.
std::vector<Placement> place_shapes(std::int32_t label, const Parameters& parameters,
                                    core::Random& random) {
  const std::size_t digits = count_digits(parameters.classes);
  // The sizes are those of a part of 32 x 32 pixels.
  const float unit_x = static_cast<float>(parameters.image.width) / 32;
  const float unit_y =
      static_cast<float>(parameters.image.height) / static_cast<float>(32 * digits);
  std::vector<Placement> placements(digits);
  float top = 0;
  for (Placement& placement : placements) {
    const float radius = between(random, 9, 11);
    placement.shape = label % shapes;
    placement.radius_x = radius * unit_x;
    placement.radius_y = radius * unit_y;
    placement.centre_x = between(random, 13, 19) * unit_x;
    placement.centre_y = top + between(random, 13, 19) * unit_y;
    label /= shapes;
    top += 32 * unit_y;
  }
  return placements;
}

// Colour of the shapes and of the background in one channel, without noise.
struct Colours {
  int background, foreground;
};

constexpr int noise = 24;

// Foreground and background differ clearly in each channel; the shape is brighter with probability
// 3/4. The colours are independent of the class, so colour or brightness alone does not determine
// it.
Colours choose_colours(core::Random& random) {
  const float contrast = between(random, 60, 120) * (random.below(4) == 0 ? -1.0f : 1.0f);
  const float middle = between(random, 90, 165);
  return {.background = static_cast<int>(middle - contrast / 2) - noise,
          .foreground = static_cast<int>(middle + contrast / 2) - noise};
}

void draw(std::int32_t label, const Parameters& parameters, core::Random random,
          std::span<std::uint8_t> to) {
  const core::ImageShape image = parameters.image;
  const std::vector<Placement> placements = place_shapes(label, parameters, random);
  std::vector<Colours> colours(static_cast<std::size_t>(image.channels));
  for (Colours& channel : colours) channel = choose_colours(random);

  const auto pixels = static_cast<std::size_t>(image.pixels());
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    const auto width = static_cast<std::size_t>(image.width);
    const float x = static_cast<float>(pixel % width) + 0.5f;
    const float y = static_cast<float>(pixel / width) + 0.5f;
    const bool is_covered =
        std::ranges::any_of(placements, [&](const Placement& p) { return p.covers(x, y); });
    std::uint32_t bits = 0;  // one byte of noise per channel
    for (std::size_t c = 0; c < colours.size(); ++c) {
      bits = c % 4 == 0 ? random.bits() : bits >> 8;
      const int colour = is_covered ? colours[c].foreground : colours[c].background;
      const int byte = static_cast<int>(bits & 0xffu);
      to[c * pixels + pixel] =
          static_cast<std::uint8_t>(std::clamp(colour + byte * (2 * noise) / 255, 0, 255));
    }
  }
}

}  // namespace

LabelledImages generate(Split split, std::size_t samples, std::uint64_t seed,
                        const Parameters& parameters, core::ProgressMonitor* progress) {
  const auto bytes = static_cast<std::size_t>(parameters.image.elements());
  LabelledImages content{.images = std::vector<std::uint8_t>(samples * bytes),
                         .labels = std::vector<std::int32_t>(samples)};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const auto label =
        static_cast<std::int32_t>(sample % static_cast<std::size_t>(parameters.classes));
    content.labels[sample] = label;
    draw(label, parameters,
         core::Random(seed, core::RandomStream::synthetic, sample,
                      static_cast<std::uint32_t>(split)),
         std::span(content.images).subspan(sample * bytes, bytes));
    if (sample % 1000 == 0) core::report_progress(progress);
  }
  return content;
}

}  // namespace lockstep::data::synthetic

namespace lockstep::data {

namespace {

/// Removes `mark` and the text behind it from `text`. Returns that text, or nothing if `text` has
/// no `mark`.
std::optional<std::string_view> take_part(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view part = text.substr(at + 1);
  text = text.substr(0, at);
  return part;
}

/// Sets `number` if `text` is a number; otherwise returns false.
template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Sets `shape` if `text` ("3x224x224") is a supported shape; otherwise returns false.
bool parse_shape(std::string_view text, core::ImageShape& shape) {
  auto height = take_part(text, 'x');
  const auto width = height ? take_part(*height, 'x') : std::nullopt;
  return width && parse_number(text, shape.channels) && parse_number(*height, shape.height) &&
         parse_number(*width, shape.width) && is_supported(shape);
}

/// Parses the value `synthetic:N@CxHxW/CLASSES` of --data. Each part after the name may be left
/// out.
synthetic::Parameters parse(const SourceRequest& request) {
  synthetic::Parameters parameters;
  std::string_view text = request.parameters;
  const auto classes = take_part(text, '/');
  const auto shape = take_part(text, '@');
  const auto samples = take_part(text, ':');
  if (!text.empty()) fail_source(request.value);
  std::string rule;
  if ((samples && !parse_number(*samples, parameters.samples)) || parameters.samples < 1 ||
      parameters.samples > most_images)
    rule = fmt::format("number of images must be from 1 to {}", most_images);
  else if (shape && !parse_shape(*shape, parameters.image))
    rule = fmt::format("image shape must be CxHxW with numbers from 1 to {} and at most {} values",
                       most_pixels, most_values);
  else if ((classes && !parse_number(*classes, parameters.classes)) || parameters.classes < 2 ||
           parameters.classes > most_classes)
    rule = fmt::format("number of classes must be from 2 to {}", most_classes);
  if (rule.empty()) return parameters;
  core::fail(core::ExitStatus::usage,
             fmt::format("--data {}: the {}; use for example --data synthetic:10000@3x224x224/100",
                         request.value, rule));
}

class SyntheticSource final : public Source {
 public:
  explicit SyntheticSource(const SourceRequest& request)
      : parameters_(parse(request)), seed_(request.seed) {
    sizes_ = {parameters_.samples, std::max<std::size_t>(parameters_.samples / 5, 1)};
    info_ = {.name = "synthetic",
             .image = parameters_.image,
             .classes = parameters_.classes,
             // The values of CIFAR-10.
             .normalisation = {.mean = {0.4914f, 0.4822f, 0.4465f},
                               .standard_deviation = {0.2023f, 0.1994f, 0.2010f}}};
  }

  LabelledImages read(Split split, std::size_t samples,
                      core::ProgressMonitor* progress) const override {
    return synthetic::generate(split, samples, seed_, parameters_, progress);
  }

 private:
  synthetic::Parameters parameters_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Source> open_synthetic(const SourceRequest& request) {
  return std::make_unique<SyntheticSource>(request);
}

}  // namespace lockstep::data
