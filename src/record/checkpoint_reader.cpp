// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/checkpoint_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "checkpoint_file.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "schema.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

using hdf5::Failure;
using hdf5::own;

namespace {

using Shape = std::vector<std::int64_t>;

[[noreturn]] void fail_input(const fs::path& path, const std::string& why,
                             std::string_view advice = "give another checkpoint") {
  core::fail(core::ExitStatus::input,
             fmt::format("cannot read {} ({}); {}", path.string(), why, advice));
}

/// Returns what to do about a file of the kind `kind` that is given instead of an HDF5 file.
std::string advice(const fs::path& path, std::string_view kind) {
  const bool has_weights = kind.find("PyTorch") != kind.npos || kind.find("NumPy") != kind.npos ||
                           kind == "a Python pickle" || kind == "a safetensors file";
  return has_weights ? fmt::format("convert it: lockstep-weights from-pytorch {} -o weights.h5",
                                   path.string())
                     : "give another checkpoint";
}

/// Throws `Error` (input) if the file is a run file, or a checkpoint of another version.
void require_format(const hdf5::File& file, const fs::path& path) {
  if (!hdf5::has_attribute(file.get(), "format")) return;  // weights of another program
  const std::string format = hdf5::text_attribute(file.get(), "format");
  if (format == run_file_schema().format) {
    fail_input(path, "it is a run file, which has times but no weights",
               "give a checkpoint of the run, a file checkpoint-STEP.h5 in its --checkpoint-dir");
  }
  if (format != checkpoint_format) return;
  const auto version = hdf5::integer_attribute(file.get(), "format_version");
  if (version == checkpoint_version) return;
  if (!version) throw Failure("the attribute format_version is not an integer", 0);
  fail_input(path,
             fmt::format("it is a checkpoint of version {}, and this program reads version {}",
                         *version, checkpoint_version),
             "resume it with the program that wrote it");
}

/// Removes the prefixes that DistributedDataParallel and torch.compile add to the names.
std::string plain_name(std::string name) {
  for (const std::string_view prefix : {"module.", "_orig_mod.", "module."}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  return name;
}

[[noreturn]] void refuse(const std::string& why) { throw Failure(why, 0); }

std::string text(const Shape& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

Shape shape_of(const hdf5::Dataset& dataset) {
  const std::vector<hsize_t> extents = hdf5::extents(dataset);
  return {extents.begin(), extents.end()};
}

/// Returns the integers and texts of the root, except those that describe the file itself.
CheckpointHeader read_header(const hdf5::File& file) {
  CheckpointHeader header;
  for (const std::string& name : hdf5::attribute_names(file.get())) {
    if (name == "format" || name == "format_version" || name == "software_version" ||
        name == "digest") {
      continue;
    }
    if (const auto value = hdf5::integer_attribute(file.get(), name.c_str())) {
      header.counters.emplace_back(name, *value);
    } else if (auto text = hdf5::find_text_attribute(file.get(), name.c_str(), most_text_bytes)) {
      header.texts.emplace_back(name, *std::move(text));
    }
  }
  return header;
}

/// Reads a checkpoint in one pass: the requested tensors and, if the file has a digest, all other
/// datasets too, to verify it. A file without a digest is of another program: its tensors may be
/// of any floating-point type, be in the root instead of /state, and have names with a prefix of
/// PyTorch.
class Reader {
 public:
  Reader(const fs::path& path, std::span<const Tensor> wanted, Verify verify)
      : path_(path),
        file_(hdf5::open_file(path, hdf5::Access::read)),
        file_bytes_(fs::file_size(path)),
        wanted_(wanted),
        values_(wanted.size()),
        header_(read_header(file_)),
        digest_(header_) {
    require_format(file_, path);
    if (hdf5::has_attribute(file_.get(), "digest")) {
      stored_digest_ = hdf5::text_attribute(file_.get(), "digest", 64);
    } else if (verify == Verify::required) {
      refuse("it carries no digest, so it is no complete checkpoint of lockstep");
    }
  }

  /// Copies the values to the requested tensors, if all of the file is valid. Returns the counters.
  Counters read() {
    for (const hdf5::Link& link : hdf5::links(file_.get())) {
      const hdf5::Object object = open(file_.get(), link, "/" + link.name);
      if (!object) continue;
      if (H5Iget_type(object.get()) != H5I_GROUP) {
        if (!has_digest()) read_object(file_.get(), "state", link, "/" + link.name);
        continue;
      }
      for (const hdf5::Link& inner : hdf5::links(object.get())) {
        read_object(object.get(), link.name, inner, fmt::format("/{}/{}", link.name, inner.name));
      }
    }
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (!values_[i]) {
        refuse(fmt::format("it lacks the tensor /{}/{} ({}){}", wanted_[i].group, wanted_[i].name,
                           text(wanted_[i].shape), other_name(wanted_[i].name)));
      }
    }
    if (has_digest() && digest_.hex() != stored_digest_) {
      refuse("its digest does not match: the file was damaged or changed");
    }
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      std::ranges::copy(*values_[i], wanted_[i].values.begin());
    }
    return header_.counters;
  }

 private:
  bool has_digest() const { return !stored_digest_.empty(); }

  /// Opens the object of a link. A soft or external link is an error in a file with a digest; in a
  /// file without one, the result is an empty handle.
  hdf5::Object open(hid_t group, const hdf5::Link& link, const std::string& path) const {
    if (!link.hard && has_digest()) refuse(path + " points to another place");
    if (!link.hard) return {};
    return hdf5::open_object(group, link.name);
  }

  /// Describes what the file has instead of the tensor `name`.
  std::string other_name(const std::string& name) const {
    if (has_digest()) return "";
    const auto similar = std::ranges::find_if(
        unused_, [&](const std::string& path) { return path.ends_with("." + name); });
    if (similar != unused_.end()) {
      return fmt::format("; it has {} instead: remove the prefix from the names", *similar);
    }
    if (unused_.empty()) return "; it has no tensors in the root or in the group /state";
    return fmt::format("; it has {} other tensors, such as {}: --model may be another network",
                       unused_.size(), unused_.front());
  }

  void read_object(hid_t group, const std::string& group_name, const hdf5::Link& link,
                   const std::string& path) {
    const std::string name = has_digest() ? link.name : plain_name(link.name);
    const auto at = std::find_if(wanted_.begin(), wanted_.end(), [&](const Tensor& tensor) {
      return tensor.group == group_name && tensor.name == name;
    });
    const bool is_wanted = at != wanted_.end();
    if (!is_wanted && !has_digest()) return unused_.push_back(path);
    const hdf5::Object object = open(group, link, path);
    if (!object || H5Iget_type(object.get()) != H5I_DATASET) refuse(path + " is not a dataset");
    const auto dataset =
        own<hdf5::Dataset>(H5Dopen2(group, link.name.c_str(), H5P_DEFAULT), "opening a tensor");
    hdf5::require_plain_storage(dataset, path);
    if (is_wanted) {
      read_wanted(dataset, path, static_cast<std::size_t>(at - wanted_.begin()));
    } else {
      read_other(dataset, path, group_name, link.name);
    }
  }

  void read_wanted(const hdf5::Dataset& dataset, const std::string& path, std::size_t index) {
    const Tensor& tensor = wanted_[index];
    const Shape shape = shape_of(dataset);
    if (hdf5::type_class(dataset) != H5T_FLOAT) refuse(path + " has no floating-point type");
    if (has_digest() && !hdf5::has_type(dataset, H5T_IEEE_F32LE, H5T_IEEE_F32BE))
      refuse(path + " is not float32");
    if (shape != tensor.shape) {
      const bool is_head = shape.size() == tensor.shape.size() && !shape.empty() &&
                           shape.front() != tensor.shape.front() &&
                           std::equal(shape.begin() + 1, shape.end(), tensor.shape.begin() + 1);
      if (is_head && at_end(tensor)) {
        fail_input(
            path_,
            fmt::format("{} has the shape {} where {} is needed: the file has {} classes, "
                        "the network {}",
                        path, text(shape), text(tensor.shape), shape.front(), tensor.shape.front()),
            fmt::format("use --classes {} if the data have no more classes, or remove the "
                        "option",
                        shape.front()));
      }
      refuse(fmt::format("{} has the shape {} where {} is needed", path, text(shape),
                         text(tensor.shape)));
    }
    std::vector<float>& values = values_[index].emplace(tensor.values.size());
    read_values(dataset, values);
    digest_.add(tensor.group, tensor.name, shape, values);
  }

  /// Returns whether the tensor belongs to the last layer of the network, whose outputs are the
  /// classes.
  bool at_end(const Tensor& tensor) const {
    const auto layer = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
    const Tensor* last = nullptr;
    for (const Tensor& other : wanted_) {
      if (other.group == "state" && other.name.ends_with(".weight") && other.shape.size() == 2)
        last = &other;
    }
    return last != nullptr && layer(last->name) == layer(tensor.name);
  }

  void read_other(const hdf5::Dataset& dataset, const std::string& path,
                  const std::string& group_name, const std::string& name) {
    const Shape shape = shape_of(dataset);
    if (shape.empty() && hdf5::has_type(dataset, H5T_STD_I64LE, H5T_STD_I64BE)) {
      std::int64_t count = 0;
      hdf5::read_all(dataset, H5T_NATIVE_INT64, &count);
      digest_.add(group_name, name, count);
      return;
    }
    if (!hdf5::has_type(dataset, H5T_IEEE_F32LE, H5T_IEEE_F32BE)) refuse(path + " is not float32");
    // A file with a digest stores these tensors uncompressed, so none can be larger than the file.
    std::uintmax_t elements = 1;
    for (const std::int64_t extent : shape) {
      const auto size = static_cast<std::uintmax_t>(extent);
      if (size > file_bytes_ || elements * size > file_bytes_) refuse(path + " has no real shape");
      elements *= size;
    }
    scratch_.resize(elements);
    read_values(dataset, scratch_);
    digest_.add(group_name, name, shape, scratch_);
  }

  static void read_values(const hdf5::Dataset& dataset, std::span<float> values) {
    if (!values.empty()) hdf5::read_all(dataset, H5T_NATIVE_FLOAT, values.data());
  }

  fs::path path_;
  hdf5::File file_;
  std::uintmax_t file_bytes_;
  std::span<const Tensor> wanted_;
  std::vector<std::optional<std::vector<float>>> values_;  ///< of the requested tensors
  CheckpointHeader header_;
  CheckpointDigest digest_;
  std::string stored_digest_;        ///< empty if the file has no digest
  std::vector<std::string> unused_;  ///< paths of the other objects of a file without a digest
  std::vector<float> scratch_;
};

/// Returns the result of `read`. Throws `Error` (input) as `hdf5::reading` does.
auto reading(const fs::path& path, const auto& read) {
  decltype(read()) result;
  const auto advise = [&](std::string_view kind) { return advice(path, kind); };
  hdf5::reading(path, advise, [&] { result = read(); });
  return result;
}

}  // namespace

Counters read_checkpoint(const fs::path& path, std::span<const Tensor> tensors, Verify verify) {
  return reading(path, [&] { return Reader(path, tensors, verify).read(); });
}

CheckpointHeader skim_checkpoint(const fs::path& path) {
  return reading(path, [&] {
    const hdf5::File file = hdf5::open_file(path, hdf5::Access::read);
    require_format(file, path);
    return read_header(file);
  });
}

}  // namespace lockstep::record
