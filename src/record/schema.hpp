// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The schema of the run file: names, shapes, element types and units of all datasets. It is the
// file analysis/lockstep_report/runfile/run_file_schema.json, which is compiled into the program.
// The Python package and the tables of docs/run-file.md follow from the same file.
namespace lockstep::record {

/// Element type of a dataset. Texts are UTF-8 padded with zeros, of the length of the longest text
/// of the dataset, or of `short_text_bytes` bytes in datasets to which texts are appended.
enum class ElementType { int64, uint64, float64, text, short_text };
inline constexpr std::size_t short_text_bytes = 64;

/// A dataset: one quantity with one to three dimensions.
struct DatasetSchema {
  std::string path;  ///< "/GROUP/NAME"; "/NAME" for the dimension scale of NAME
  std::vector<std::string> dimensions;
  ElementType type = ElementType::float64;
  std::string units;
  std::string description;          ///< stored with the dataset as the attribute `long_name`
  bool is_required = true;          ///< false: some files of this version lack it
  std::vector<std::string> values;  ///< permitted values of a text; empty: any

  bool is_scale() const { return path.rfind('/') == 0; }
};

struct Schema {
  std::string format;
  std::int64_t version = 0;
  std::set<std::pair<std::string, std::string>> attributes;  ///< path of the group, name
  std::vector<DatasetSchema> datasets;

  /// Returns the dataset `path`. Throws `Error` (internal) if the schema does not have it.
  const DatasetSchema& dataset(std::string_view path) const;
  /// Returns the datasets of a group such as "/steps", in the order of the schema.
  std::vector<const DatasetSchema*> group(std::string_view path) const;
  /// Returns the datasets whose first dimension is `dimension`, without its scale.
  std::vector<const DatasetSchema*> along(std::string_view dimension) const;
};

/// Returns the schema of the run files that this program writes.
const Schema& run_file_schema();

}  // namespace lockstep::record
