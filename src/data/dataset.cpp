#include "lockstep/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "digest.hpp"
#include "lockstep/core/error.hpp"
#include "source.hpp"

namespace lockstep::data {

namespace {

/// Returns the number of images to use: `wanted`, or all that were found if it is 0.
std::size_t first(std::size_t wanted, std::size_t found, std::string_view option,
                  const std::string& source) {
  if (wanted > found) {
    core::fail(core::ExitStatus::usage, fmt::format("--{} {}: {} holds only {}; ask for at most {}",
                                                    option, wanted, source, found, found));
  }
  return wanted == 0 ? found : wanted;
}

DataSizes sizes_of(const Source& source, const DataOptions& options) {
  DataSizes sizes{.info = source.info()};
  sizes.train =
      first(options.train_samples, source.size(Split::train), "train-samples", options.source);
  sizes.test =
      first(options.test_samples, source.size(Split::test), "test-samples", options.source);
  sizes.memory_bytes = source.memory_bytes(sizes.train + sizes.test);
  return sizes;
}

}  // namespace

void Dataset::copy_images(std::size_t first, std::span<std::uint8_t> images) const {
  const std::size_t bytes = image_bytes();
  for (std::size_t at = 0; at < images.size(); at += bytes, ++first) {
    const auto to = images.subspan(at, bytes);
    const auto from = read_image(first, to);
    if (from.data() != to.data()) std::ranges::copy(from, to.begin());
  }
}

std::vector<std::string> source_syntaxes() {
  std::vector<std::string> texts;
  for (const SourceEntry& entry : source_entries()) {
    texts.push_back(fmt::format("{} ({})", entry.syntax, entry.help));
  }
  return texts;
}

DataSizes sizes(const DataOptions& options) {
  return sizes_of(*open_source(options.source, options.seed), options);
}

TrainingData load(const DataOptions& options) {
  const auto source = open_source(options.source, options.seed);
  const DataSizes wanted = sizes_of(*source, options);
  TrainingData data{.train = source->read(Split::train, wanted.train, options.progress),
                    .test = source->read(Split::test, wanted.test, options.progress),
                    .digest = {}};
  core::report_progress(options.progress);
  data.digest = digest(*data.train, *data.test);
  return data;
}

}  // namespace lockstep::data
