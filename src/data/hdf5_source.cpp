// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5_source.hpp"

// Own images in one HDF5 file; docs/options.md describes its layout.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "lockstep/core/hdf5.hpp"

namespace lockstep::data {

namespace {

namespace fs = std::filesystem;
namespace hdf5 = core::hdf5;
using Extents = std::vector<hsize_t>;

constexpr std::string_view layout =
    "write the file with lockstep-data, or as docs/options.md describes under 'Own images'";

/// Returns what to do about a file of the kind `kind` that is given instead of an HDF5 file.
std::string conversion(const fs::path& path, std::string_view kind) {
  const auto command = [&](std::string_view source, std::string_view options) {
    return fmt::format("convert it with lockstep-data {} {}{} -o data.h5", source, path.string(),
                       options);
  };
  if (kind == "a folder") return command("folder", " --size 32");
  if (kind.find("NumPy") != kind.npos) return command("numpy", "");
  return std::string(layout);
}

std::string text(const Extents& extents) { return fmt::format("({})", fmt::join(extents, ", ")); }

/// An open file. The functions throw `Error` (input) if a dataset does not fit the layout, and
/// `hdf5::Failure` if it cannot be read.
class Contents {
 public:
  explicit Contents(const fs::path& path)
      : path_(path), file_(hdf5::open_file(path, hdf5::Access::read)) {}

  [[noreturn]] void fail(const std::string& what, std::string_view advice = layout) const {
    core::fail(core::ExitStatus::input, fmt::format("{}: {}; {}", path_.string(), what, advice));
  }

  /// Opens the dataset with this path, of which a group may be the first part, and with
  /// `dimensions` dimensions. `meaning`: of its extents, for messages.
  hdf5::Dataset open(const std::string& path, std::size_t dimensions,
                     std::string_view meaning) const {
    hdf5::Object object;
    hid_t place = file_.get();
    for (const fs::path& part : fs::path(path)) {
      object = find(place, part, path);
      place = object.get();
    }
    if (H5Iget_type(place) != H5I_DATASET) fail(path + " is not a dataset");
    auto dataset = hdf5::own<hdf5::Dataset>(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT),
                                            "opening a dataset");
    hdf5::require_plain_storage(dataset, path);
    const Extents extents = hdf5::extents(dataset);
    if (extents.size() != dimensions) {
      const bool lacks_channels = dimensions == 4 && extents.size() == 3;
      fail(fmt::format("{} has the shape {} instead of {}", path, text(extents), meaning),
           lacks_channels ? "add the dimension of the channels: images[:, None]" : layout);
    }
    require_stored(dataset, path, extents);
    return dataset;
  }

  std::vector<float> floats(const std::string& name, std::size_t channels) const {
    const auto dataset = open(name, 1, "(C,)");
    const std::size_t found = hdf5::extents(dataset).front();
    if (found != channels) {
      fail(fmt::format("{} has {} values, but the images have {} channels", name, found, channels),
           "write one value per channel");
    }
    const H5T_class_t kind = hdf5::type_class(dataset);
    if (kind != H5T_FLOAT && kind != H5T_INTEGER) {
      fail(fmt::format("{} does not consist of numbers", name));
    }
    std::vector<float> values(channels);
    hdf5::read_all(dataset, H5T_NATIVE_FLOAT, values.data());
    return values;
  }

  /// Returns the number of class names; their texts are not read.
  std::int64_t count_classes() const {
    const std::size_t count = hdf5::extents(open("class_names", 1, "(classes,)")).front();
    if (count < 2 || count > std::size_t{most_classes}) {
      fail(fmt::format("class_names has {} names, and there can be 2 to {}", count, most_classes));
    }
    return static_cast<std::int64_t>(count);
  }

 private:
  hdf5::Object find(hid_t group, const std::string& name, const std::string& path) const {
    const auto links =
        H5Iget_type(group) == H5I_DATASET ? std::vector<hdf5::Link>{} : hdf5::links(group);
    const auto link = std::ranges::find(links, name, &hdf5::Link::name);
    if (link == links.end()) fail("has no dataset " + path);
    if (!link->hard) fail(path + " is a link to another place");
    return hdf5::open_object(group, name);
  }

  /// Fails if the file cannot contain all values of the dataset.
  void require_stored(const hdf5::Dataset& dataset, const std::string& path,
                      const Extents& extents) const {
    constexpr double most_compression = 1100;  // deflate reaches 1032
    const auto type = hdf5::own<hdf5::Type>(H5Dget_type(dataset.get()), "reading a type");
    double bytes = static_cast<double>(H5Tget_size(type.get()));
    for (const hsize_t extent : extents) bytes *= static_cast<double>(extent);
    const auto stored = static_cast<double>(H5Dget_storage_size(dataset.get()));
    if (stored * most_compression < bytes) {
      fail(fmt::format("{} with the shape {} was never written completely", path, text(extents)));
    }
  }

  const fs::path& path_;
  hdf5::File file_;
};

/// Returns the name of the group of `split`.
std::string group_of(Split split) { return split == Split::train ? "train" : "test"; }

/// The datasets of a split.
struct Part {
  hdf5::Dataset images, labels;
  std::size_t size = 0;
  core::ImageShape image{};
};

Part open_part(const Contents& contents, Split split) {
  const std::string group = group_of(split);
  Part part{.images = contents.open(group + "/images", 4, "(N, C, H, W)"),
            .labels = contents.open(group + "/labels", 1, "(N,)")};
  if (!hdf5::has_type(part.images, H5T_STD_U8LE, H5T_STD_U8BE)) {
    contents.fail(group + "/images is not of the type uint8",
                  "write values from 0 to 255 as uint8");
  }
  if (hdf5::type_class(part.labels) != H5T_INTEGER) {
    contents.fail(fmt::format("{}/labels does not consist of integers", group),
                  "write the indices of the class names");
  }
  const Extents extents = hdf5::extents(part.images);
  const hsize_t label_count = hdf5::extents(part.labels).front();
  if (extents[0] != label_count) {
    contents.fail(fmt::format("{0}/images has {1} images, but {0}/labels has {2} labels", group,
                              extents[0], label_count),
                  "write one label per image");
  }
  if (extents[0] < 1 || extents[0] > most_images) {
    contents.fail(fmt::format("{}/images has {} images, and there can be 1 to {}", group,
                              extents[0], most_images));
  }
  const auto most_channels = core::Normalisation{}.mean.size();
  if (extents[1] < 1 || extents[1] > most_channels) {
    contents.fail(fmt::format("{}/images has the shape {}: {} channels, and there can be 1 to {}",
                              group, text(extents), extents[1], most_channels),
                  extents[3] <= most_channels
                      ? "write the channels first: images.transpose(0, 3, 1, 2)"
                      : layout);
  }
  const auto side = [&](std::size_t at) {
    return static_cast<std::int64_t>(std::min<hsize_t>(extents[at], most_pixels + 1));
  };
  part.image = {side(1), side(2), side(3)};
  if (!is_supported(part.image)) {
    contents.fail(
        fmt::format("{}/images has images of {} x {} pixels, and there can be 1 to {} per side",
                    group, extents[2], extents[3], most_pixels));
  }
  part.size = static_cast<std::size_t>(extents[0]);
  return part;
}

core::Normalisation normalisation(const Contents& contents, std::size_t channels) {
  core::Normalisation result;
  std::ranges::copy(contents.floats("mean", channels), result.mean.begin());
  std::ranges::copy(contents.floats("std", channels), result.standard_deviation.begin());
  const auto advice = [](float value, std::string_view other) {
    return value > 1 ? "divide by 255: pixels are scaled to 0 to 1 first" : other;
  };
  for (std::size_t i = 0; i < channels; ++i) {
    const float mean = result.mean[i], deviation = result.standard_deviation[i];
    if (!(mean >= 0 && mean <= 1)) {
      contents.fail(fmt::format("mean[{}] is {}, not between 0 and 1", i, mean),
                    advice(mean, "write the mean of the pixels, or 0 for none"));
    }
    if (!(deviation > 0 && deviation <= 1)) {
      contents.fail(fmt::format("std[{}] is {}, not above 0 and at most 1", i, deviation),
                    advice(deviation, "write the standard deviation of the pixels, or 1 for none"));
    }
  }
  return result;
}

class Hdf5Source final : public Source {
 public:
  explicit Hdf5Source(const SourceRequest& request) : path_(path_of(request)) {
    reading([&] {
      const Contents contents(path_);
      const Part train = open_part(contents, Split::train);
      const Part test = open_part(contents, Split::test);
      if (train.image != test.image) {
        contents.fail("the images in train and in test have different shapes",
                      "resize them to one shape");
      }
      sizes_ = {train.size, test.size};
      info_ = {
          .name = "hdf5",
          .image = train.image,
          .classes = contents.count_classes(),
          .normalisation = normalisation(contents, static_cast<std::size_t>(train.image.channels))};
    });
  }

  LabelledImages read(Split split, std::size_t samples,
                      core::ProgressMonitor* progress) const override {
    LabelledImages content;
    reading([&] {
      const Contents contents(path_);
      const Part part = open_part(contents, split);
      content = {.images = read_images(part, samples, progress),
                 .labels = read_labels(contents, part, split, samples)};
    });
    return content;
  }

 private:
  void reading(const std::function<void()>& read) const {
    hdf5::reading(
        path_, [&](std::string_view kind) { return conversion(path_, kind); }, read);
  }
  std::vector<std::int32_t> read_labels(const Contents& contents, const Part& part, Split split,
                                        std::size_t samples) const {
    std::vector<std::int64_t> values(samples);
    hdf5::read_rows(part.labels, H5T_NATIVE_INT64, 0, samples, values.data());
    const auto wrong = std::ranges::find_if(
        values, [&](std::int64_t label) { return label < 0 || label >= info_.classes; });
    if (wrong != values.end()) {
      contents.fail(fmt::format("{}/labels[{}] is {}, but the {} classes have the labels 0 to {}",
                                group_of(split), wrong - values.begin(), *wrong, info_.classes,
                                info_.classes - 1),
                    "write the indices of the class names, from 0");
    }
    return {values.begin(), values.end()};
  }

  static std::vector<std::uint8_t> read_images(const Part& part, std::size_t samples,
                                               core::ProgressMonitor* progress) {
    const auto image_bytes = static_cast<std::size_t>(part.image.elements());
    const std::size_t block = std::max<std::size_t>((std::size_t{64} << 20) / image_bytes, 1);
    std::vector<std::uint8_t> pixels(samples * image_bytes);
    for (std::size_t first = 0; first < samples; first += block) {
      hdf5::read_rows(part.images, H5T_NATIVE_UINT8, first, std::min(block, samples - first),
                      pixels.data() + first * image_bytes);
      core::report_progress(progress);
    }
    return pixels;
  }

  fs::path path_;
};

}  // namespace

std::unique_ptr<Source> open_hdf5(const SourceRequest& request) {
  return std::make_unique<Hdf5Source>(request);
}

}  // namespace lockstep::data
