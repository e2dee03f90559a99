// SPDX-License-Identifier: BSD-3-Clause
// Writes the seeds of the fuzz targets to the folders DIRECTORY/cifar, checkpoint, run_file,
// own_images and options: small valid files, and files that are wrong in one respect that random
// mutations of a valid file do not reach, because HDF5 protects its structures by checksums.

#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "data/hdf5_images.hpp"
#include "data/record_formats.hpp"
#include "files.hpp"
#include "lockstep/record/checkpoint_writer.hpp"
#include "lockstep/record/output_file.hpp"
#include "lockstep/record/run_file.hpp"
#include "options/command_set.hpp"
#include "options/option_table.hpp"
#include "record/samples.hpp"
#include "record/weights.hpp"

namespace {

namespace fs = std::filesystem;
namespace hdf5 = lockstep::core::hdf5;
using namespace lockstep::record;

fs::path folder(const fs::path& directory, const char* name) {
  fs::create_directories(directory / name);
  return directory / name;
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void write_cifar(const fs::path& to) {
  for (const auto& format : lockstep::data::record_formats) {
    const std::string labels = std::to_string(format.label_classes.size());
    std::string records, names;
    for (std::size_t i = 0; i < 2 * format.record_bytes(); ++i) {
      records.push_back(static_cast<char>(i % 7));
    }
    for (int i = 0; i < format.classes(); ++i) names += "name" + std::to_string(i) + "\n";
    write_text(to / ("records-" + labels), records);
    write_text(to / ("names-" + labels), names);
  }
}

/// Writes a copy of `original` that `change` has changed.
void vary(const fs::path& original, const std::string& name,
          const std::function<void(hid_t)>& change) {
  const fs::path copy = original.parent_path() / (name + ".h5");
  fs::copy_file(original, copy, fs::copy_options::overwrite_existing);
  hdf5::File file = hdf5::open_file(copy, hdf5::Access::modify);
  change(file.get());
  hdf5::close(std::move(file));
}

/// Adds the dataset `path` of shape 4 with the creation properties that `prepare` sets.
void add_dataset(
    hid_t file, const char* path, hid_t type,
    const std::function<void(hid_t)>& prepare = [](hid_t) {}) {
  const hsize_t extent = 4;
  const auto creation = hdf5::properties(H5P_DATASET_CREATE);
  prepare(creation.get());
  const hdf5::Space space(H5Screate_simple(1, &extent, nullptr));
  const auto dataset = hdf5::own<hdf5::Dataset>(
      H5Dcreate2(file, path, type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      "creating a dataset");
  const std::vector<double> values(extent, 1.5);
  hdf5::check(
      H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
      "writing a dataset");
}

/// Replaces the attribute run_id by a text of variable length.
void set_variable_text(hid_t file) {
  H5Adelete(file, "run_id");
  const hdf5::Type type(H5Tcopy(H5T_C_S1));
  hdf5::check(H5Tset_size(type.get(), H5T_VARIABLE), "setting a length");
  const hdf5::Space space(H5Screate(H5S_SCALAR));
  const hdf5::Attribute attribute(
      H5Acreate2(file, "run_id", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  const char* text = "run 2";
  hdf5::check(H5Awrite(attribute.get(), type.get(), &text), "writing a text");
}

void write_checkpoints(const fs::path& to) {
  Weights weights(1);
  const fs::path valid = to / "valid.h5";
  write_checkpoint(valid, weights.tensors(), some_counters, {{"run_id", "run 1"}});
  write_checkpoint(to / "no-text.h5", weights.tensors(), some_counters);
  write_checkpoint(to / "no-momentum.h5", std::span(weights.tensors()).first(3), some_counters);
  vary(valid, "no-digest", [](hid_t file) { H5Adelete(file, "digest"); });
  constexpr auto lost = "/state/linear.bias";
  const auto replace = [&](const std::string& name, hid_t type, auto prepare) {
    for (const bool has_digest : {true, false}) {
      vary(valid, name + (has_digest ? "" : "-no-digest"), [&](hid_t file) {
        H5Ldelete(file, lost, H5P_DEFAULT);
        add_dataset(file, lost, type, prepare);
        if (!has_digest) H5Adelete(file, "digest");
      });
    }
  };
  const hsize_t chunk = 2;
  replace("float64", H5T_IEEE_F64LE, [](hid_t) {});
  replace("big-endian", H5T_IEEE_F32BE, [](hid_t) {});
  replace("int64", H5T_STD_I64LE, [](hid_t) {});
  replace("compact", H5T_IEEE_F32LE, [](hid_t list) { H5Pset_layout(list, H5D_COMPACT); });
  replace("deflate", H5T_IEEE_F32LE, [&](hid_t list) {
    H5Pset_chunk(list, 1, &chunk);
    H5Pset_shuffle(list);
    H5Pset_deflate(list, 6);
    H5Pset_fletcher32(list);
  });
  replace("other-filter", H5T_IEEE_F32LE, [&](hid_t list) {
    H5Pset_chunk(list, 1, &chunk);
    H5Pset_scaleoffset(list, H5Z_SO_FLOAT_DSCALE, 2);
  });
  replace("external", H5T_IEEE_F32LE,
          [](hid_t list) { H5Pset_external(list, "/dev/null", 0, 16); });
  vary(valid, "lost", [&](hid_t file) { H5Ldelete(file, lost, H5P_DEFAULT); });
  vary(valid, "added", [](hid_t file) { add_dataset(file, "/state/zzz", H5T_IEEE_F32LE); });
  vary(valid, "soft-link", [&](hid_t file) {
    H5Ldelete(file, lost, H5P_DEFAULT);
    H5Lcreate_soft("/momentum/linear.bias", file, lost, H5P_DEFAULT, H5P_DEFAULT);
  });
  vary(valid, "soft-group",
       [](hid_t file) { H5Lcreate_soft("/state", file, "again", H5P_DEFAULT, H5P_DEFAULT); });
  vary(valid, "group-in-group", [](hid_t file) {
    hdf5::Group(H5Gcreate2(file, "/state/deep", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  vary(valid, "variable-text", set_variable_text);
  vary(valid, "other-version",
       [](hid_t file) { hdf5::set_attribute(file, "format_version", std::int64_t{1}); });
  vary(valid, "real-counter", [](hid_t file) { hdf5::set_attribute(file, "step", 1.5); });
  write_text(to / "empty.h5", "");
}

void write_run_files(const fs::path& to) {
  const RunHeader header = samples::header(1, 0);
  const fs::path valid = to / "valid.h5";
  RunFile run(valid, OverwriteMode::replace, header);
  run.append(samples::epoch(1, 2, header));
  const fs::path running = to / "running.h5";
  fs::copy_file(to / "valid.h5.partial", running, fs::copy_options::overwrite_existing);
  run.finish(RunStatus::complete);
  vary(valid, "variable-text", set_variable_text);
  vary(valid, "number", [](hid_t file) { hdf5::set_attribute(file, "run_id", 1.5); });
  vary(valid, "other-format",
       [](hid_t file) { hdf5::set_attribute(file, "format", std::string("lockstep-checkpoint")); });
  vary(valid, "no-run-id", [](hid_t file) { H5Adelete(file, "run_id"); });
}

/// Joins the parts, each followed by a zero byte.
std::string parts(const std::vector<std::string>& all) {
  std::string joined;
  for (const std::string& part : all) joined += part + '\0';
  return joined;
}

void write_options(const fs::path& to) {
  using namespace lockstep::app;
  // The defaults are valid values of the options.
  const Options defaults;
  for (const Option& option : options()) {
    const std::string name(option.name);
    if (name == "config") continue;
    const std::string value = option.value.is_flag() ? "" : "=" + option.value.print(defaults);
    std::string command = "train";
    for (const std::string& each : command_names()) {
      if (is_used(each, option)) command = each;
    }
    write_text(to / (name + "-argument"), parts({command, "--" + name + value}));
    if (value.empty()) continue;
    std::string variable = name;
    for (char& letter : variable) {
      letter = letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
    }
    write_text(to / (name + "-environment"), parts({"info", "LOCKSTEP_" + variable + value}));
    write_text(to / (name + "-file"), parts({command, "@# comment", "@" + name + value}));
  }
  write_text(to / "train", parts({"train", "--batch-per-rank", "32", "--lr=0.25", "--nesterov",
                                  "LOCKSTEP_EPOCHS=3", "@model = resnet18-cifar", "@[x]"}));
  write_text(to / "placeholder", parts({"train", "LOCKSTEP_QUIET=%value%", "--lr=%value%"}));
  write_text(to / "name-placeholder", parts({"train", "--%canonical_option%="}));
  write_text(to / "line-placeholder", parts({"train", "@%invalid_line%"}));
}

/// Writes images in the format of HDF5 1.10. HDF5 can crash if a file in the oldest format, which
/// has no checksums, is damaged.
void write_own_images(const fs::path& to) {
  hdf5::File file = hdf5::create_file(to / "valid.h5");
  lockstep::data::hdf5_images::write_valid(file.get());
  hdf5::close(std::move(file));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    write_cifar(folder(argv[1], "cifar"));
    write_checkpoints(folder(argv[1], "checkpoint"));
    write_run_files(folder(argv[1], "run_file"));
    write_own_images(folder(argv[1], "own_images"));
    write_options(folder(argv[1], "options"));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
