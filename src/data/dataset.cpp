#include "lockstep/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cifar10.hpp"
#include "digest.hpp"
#include "lockstep/core/error.hpp"
#include "synthetic.hpp"

namespace lockstep::data {

namespace {

// Upper limit for a synthetic data set (3 GB in memory); a larger number is probably a mistake.
constexpr std::size_t most_synthetic = 1'000'000;

struct Source {
  enum class Kind { cifar10, synthetic } kind;
  std::string folder;       // folder of the files, if kind is cifar10
  std::size_t samples = 0;  // number of training images, if kind is synthetic
};

std::size_t parse_samples(std::string_view text, const std::string& source) {
  std::size_t samples = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), samples);
  if (error != std::errc{} || end != text.data() + text.size() || samples == 0 ||
      samples > most_synthetic) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--data {}: the number of images must be from 1 to {}; use for example "
                           "--data synthetic:{}",
                           source, most_synthetic, synthetic::default_samples));
  }
  return samples;
}

Source parse(const std::string& source) {
  const std::string_view text = source;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon == std::string_view::npos) {
    if (kind == "synthetic") return {Source::Kind::synthetic, "", synthetic::default_samples};
  } else {
    const std::string_view rest = text.substr(colon + 1);
    if (kind == "synthetic") return {Source::Kind::synthetic, "", parse_samples(rest, source)};
    if (kind == "cifar10" && !rest.empty()) return {Source::Kind::cifar10, std::string(rest), 0};
  }
  core::fail(
      core::ExitStatus::usage,
      fmt::format("--data {}: unknown source; use cifar10:DIR, synthetic or synthetic:N", source));
}

std::size_t first(std::size_t wanted, std::size_t found, std::string_view option,
                  const std::string& source) {
  if (wanted > found) {
    core::fail(core::ExitStatus::usage, fmt::format("--{} {}: {} holds only {}; ask for at most {}",
                                                    option, wanted, source, found, found));
  }
  return wanted == 0 ? found : wanted;
}

DataSizes available(const Source& source) {
  if (source.kind == Source::Kind::cifar10) return cifar10::sizes(source.folder);
  return {.train = source.samples, .test = std::max<std::size_t>(source.samples / 5, 1)};
}

}  // namespace

DataSizes sizes(const DataOptions& options) {
  DataSizes sizes = available(parse(options.source));
  sizes.train = first(options.train_samples, sizes.train, "train-samples", options.source);
  sizes.test = first(options.test_samples, sizes.test, "test-samples", options.source);
  return sizes;
}

TrainingData load(const DataOptions& options) {
  const Source source = parse(options.source);
  const DataSizes wanted = sizes(options);
  TrainingData data;
  data.origin = options.source;
  if (source.kind == Source::Kind::cifar10) {
    auto [train, test] = cifar10::read(source.folder, wanted.train, wanted.test, options.progress);
    data.train = std::move(train);
    data.test = std::move(test);
  } else {
    data.train =
        synthetic::generate(synthetic::Split::train, wanted.train, options.seed, options.progress);
    data.test =
        synthetic::generate(synthetic::Split::test, wanted.test, options.seed, options.progress);
  }
  core::report_progress(options.progress);
  data.digest = digest(data.train, data.test);
  return data;
}

}  // namespace lockstep::data
