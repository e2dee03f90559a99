// SPDX-License-Identifier: BSD-3-Clause
#include "schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.hpp"
#include "run_file_schema_text.hpp"

namespace lockstep::record {

namespace {

ElementType element_type(std::string_view name) {
  if (name == "int64") return ElementType::int64;
  if (name == "uint64") return ElementType::uint64;
  if (name == "float64") return ElementType::float64;
  if (name == "string") return ElementType::text;
  core::check(name == "string64", "the run-file schema has an unknown element type");
  return ElementType::short_text;
}

DatasetSchema parse_dataset(const nlohmann::json& line) {
  return {.path = line.at("path"),
          .dimensions = line.at("dimensions"),
          .type = element_type(line.at("type").get<std::string>()),
          .units = line.at("units"),
          .description = line.at("description"),
          .is_required = line.at("required"),
          .values = line.value("values", std::vector<std::string>())};
}

Schema schema_of(const nlohmann::json& file) {
  Schema schema{
      .format = file.at("format"), .version = file.at("version"), .attributes = {}, .datasets = {}};
  for (const auto& line : file.at("attributes")) {
    schema.attributes.emplace(line.at("path"), line.at("name"));
  }
  for (const auto& line : file.at("datasets")) schema.datasets.push_back(parse_dataset(line));
  return schema;
}

template <class Predicate>
std::vector<const DatasetSchema*> select(const Schema& schema, Predicate is_selected) {
  std::vector<const DatasetSchema*> selected;
  for (const DatasetSchema& dataset : schema.datasets) {
    if (is_selected(dataset)) selected.push_back(&dataset);
  }
  return selected;
}

}  // namespace

const DatasetSchema& Schema::dataset(std::string_view path) const {
  const auto found = std::ranges::find(datasets, path, &DatasetSchema::path);
  if (found == datasets.end()) {
    core::fail(
        core::ExitStatus::internal,
        fmt::format("internal error: the run-file schema has no dataset {}; please report it",
                    path));
  }
  return *found;
}

std::vector<const DatasetSchema*> Schema::group(std::string_view path) const {
  return select(*this, [&](const DatasetSchema& dataset) {
    return dataset.path.starts_with(path) && dataset.path.rfind('/') == path.size();
  });
}

std::vector<const DatasetSchema*> Schema::along(std::string_view dimension) const {
  return select(*this, [&](const DatasetSchema& dataset) {
    return !dataset.is_scale() && dataset.dimensions.front() == dimension;
  });
}

const Schema& run_file_schema() {
  // Never destroyed: the destructor of nlohmann/json allocates memory, and ends the process if it
  // cannot.
  static const auto* const file = new nlohmann::json(nlohmann::json::parse(run_file_schema_text));
  static const Schema schema = schema_of(*file);
  return schema;
}

}  // namespace lockstep::record
