// SPDX-License-Identifier: BSD-3-Clause
// The value `synthetic:N@CxHxW/CLASSES` of --data. Each part after the name may be left out.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "lockstep/core/error.hpp"
#include "synthetic.hpp"

namespace lockstep::data {

namespace {

[[noreturn]] void fail_parameter(const std::string& value, const std::string& rule,
                                 std::string_view example) {
  core::fail(core::ExitStatus::usage,
             fmt::format("--data {}: the {}; use for example --data {}", value, rule, example));
}

/// Removes `mark` and the text behind it from `text`. Returns that text, or nothing if `text` has
/// no `mark`.
std::optional<std::string_view> take_part(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view part = text.substr(at + 1);
  text = text.substr(0, at);
  return part;
}

/// Returns the number that `text` consists of; nothing if there is none from `least` to `most`.
template <class Number>
std::optional<Number> parse_number(std::string_view text, Number least, Number most) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || number < least || number > most) return std::nullopt;
  return number;
}

/// Returns the shape that `text` ("3x224x224") states; nothing if it states none or a larger one
/// than supported.
std::optional<core::ImageShape> parse_shape(std::string_view text) {
  std::array<std::int64_t, 3> sides{};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const std::size_t length = i + 1 < sides.size() ? text.find('x') : text.size();
    if (length == std::string_view::npos) return std::nullopt;
    const auto side = parse_number<std::int64_t>(text.substr(0, length), 1, most_pixels);
    if (!side) return std::nullopt;
    sides[i] = *side;
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  const core::ImageShape shape{sides[0], sides[1], sides[2]};
  return is_supported(shape) ? std::optional(shape) : std::nullopt;
}

synthetic::Parameters parse(const SourceRequest& request) {
  synthetic::Parameters parameters;
  std::string_view text = request.parameters;
  const auto classes = take_part(text, '/');
  const auto shape = take_part(text, '@');
  const auto samples = take_part(text, ':');
  if (!text.empty()) fail_source(request.value);
  if (samples) {
    const auto number = parse_number<std::size_t>(*samples, 1, most_images);
    if (!number) {
      fail_parameter(request.value,
                     fmt::format("number of images must be from 1 to {}", most_images),
                     "synthetic:10000");
    }
    parameters.samples = *number;
  }
  if (shape) {
    const auto image = parse_shape(*shape);
    if (!image) {
      fail_parameter(
          request.value,
          fmt::format("image shape must be CxHxW with numbers from 1 to {}, at most {} values",
                      most_pixels, most_values),
          "synthetic:10000@3x224x224");
    }
    parameters.image = *image;
  }
  if (classes) {
    const auto number = parse_number<std::int32_t>(*classes, 2, most_classes);
    if (!number) {
      fail_parameter(request.value,
                     fmt::format("number of classes must be from 2 to {}", most_classes),
                     "synthetic:10000@3x32x32/100");
    }
    parameters.classes = *number;
  }
  return parameters;
}

class SyntheticSource final : public Source {
 public:
  explicit SyntheticSource(const SourceRequest& request)
      : parameters_(parse(request)),
        seed_(request.seed),
        info_{.name = "synthetic",
              .image = parameters_.image,
              .classes = parameters_.classes,
              // The values of CIFAR-10.
              .normalisation = {.mean = {0.4914f, 0.4822f, 0.4465f},
                                .standard_deviation = {0.2023f, 0.1994f, 0.2010f}}} {}

  const DatasetInfo& info() const override { return info_; }
  std::size_t size(Split split) const override {
    return split == Split::train ? parameters_.samples
                                 : std::max<std::size_t>(parameters_.samples / 5, 1);
  }
  LabelledImages read(Split split, std::size_t samples,
                      core::ProgressMonitor* progress) const override {
    return synthetic::generate(split, samples, seed_, parameters_, progress);
  }

 private:
  synthetic::Parameters parameters_;
  std::uint64_t seed_;
  DatasetInfo info_;
};

}  // namespace

std::unique_ptr<Source> open_synthetic(const SourceRequest& request) {
  return std::make_unique<SyntheticSource>(request);
}

}  // namespace lockstep::data
