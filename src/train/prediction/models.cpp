#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lockstep/core/error.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/train/prediction_models.hpp"
#include "models_json.hpp"

namespace lockstep::train {

namespace {

using nlohmann::json;

const json& models() {
  static const json all = json::parse(models_json());
  return all;
}

/// Thrown if a model is malformed; the caller adds the name of the file.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Interval read_interval(const std::string& name, const json& value) {
  Interval interval;
  if (value.is_number()) {
    interval = {value.get<double>(), value.get<double>()};
  } else if (value.is_array() && value.size() == 2 && value[0].is_number() &&
             value[1].is_number()) {
    interval = {value[0].get<double>(), value[1].get<double>()};
  } else {
    throw Malformed{fmt::format("'{}' is neither a number nor a pair of numbers", name)};
  }
  if (!(interval.low >= 0 && interval.low <= interval.high))
    throw Malformed{fmt::format("'{}' is negative or its second number is the smaller one", name)};
  return interval;
}

Quantity read_quantity(const std::string& name, const json& entry, const json& sources) {
  if (!entry.is_object()) return {name, read_interval(name, entry), "", "given", false};
  if (!entry.contains("value")) throw Malformed{fmt::format("'{}' has no 'value'", name)};
  const std::string key = entry.value("source", "given");
  return {.name = name,
          .value = read_interval(name, entry["value"]),
          .unit = entry.value("unit", ""),
          .source = sources.value(key, key),
          .is_verified = !entry.value("unverified", false) && sources.contains(key)};
}

/// The quantities of a model, found by their names.
class Quantities {
 public:
  void add(const json& entries, const json& sources) {
    for (const auto& [name, entry] : entries.items())
      all_.push_back(read_quantity(name, entry, sources));
  }
  std::optional<Interval> find(std::string_view name) const {
    const auto found = std::ranges::find(all_, name, &Quantity::name);
    if (found == all_.end()) return std::nullopt;
    return found->value;
  }
  Interval get(std::string_view name) const {
    if (const auto value = find(name)) return *value;
    throw Malformed{fmt::format("'{}' is missing", name)};
  }
  /// Removes the rates of the other precisions.
  void keep_precision(std::string_view precision) {
    std::erase_if(all_, [&](const Quantity& quantity) {
      const std::string_view name = quantity.name;
      const bool is_rate = name.starts_with("product_") || name.starts_with("peak_");
      return is_rate && !name.ends_with(precision) && name != "peak_memory";
    });
  }
  std::vector<Quantity> take() { return std::move(all_); }

 private:
  std::vector<Quantity> all_;
};

NetworkModel read_network(const std::string& name, const json& entry, const json& sources) {
  if (!entry.is_object() || !entry.contains("quantities") || !entry["quantities"].is_object())
    throw Malformed{"it has no object 'quantities'"};
  const json ranks = entry.value("ranks_per_node", json());
  if (!ranks.is_number_integer() || ranks.get<std::int64_t>() < 1 ||
      ranks.get<std::int64_t>() > 1'000'000)
    throw Malformed{"'ranks_per_node' is not a whole number of at least 1"};
  static constexpr std::array<std::string_view, 6> known{"base_latency", "bus",     "bus_of_8",
                                                         "node_step",    "adapter", "network_step"};
  for (const auto& [quantity, value] : entry["quantities"].items()) {
    if (std::ranges::find(known, quantity) == known.end())
      throw Malformed{fmt::format("'{}' is not one of {}", quantity, fmt::join(known, ", "))};
  }
  Quantities quantities;
  quantities.add(entry["quantities"], sources);
  NetworkModel network{.name = name, .ranks_per_node = ranks.get<int>()};
  network.base_latency = quantities.get("base_latency");
  network.bus = quantities.find("bus");
  network.bus_of_8 = quantities.find("bus_of_8");
  network.adapter = quantities.find("adapter");
  network.node_step = quantities.find("node_step").value_or(Interval{});
  network.network_step = quantities.find("network_step").value_or(Interval{});
  for (const auto& bandwidth : {network.bus, network.bus_of_8, network.adapter}) {
    if (bandwidth && !(bandwidth->low > 0)) throw Malformed{"a bandwidth is not positive"};
  }
  network.quantities = quantities.take();
  return network;
}

NetworkModel read_network_file(const std::string& path) {
  const std::string text = core::read_option_file("--network", path, core::ExitStatus::input);
  try {
    NetworkModel network = read_network(path, json::parse(text), json::object());
    if (network.ranks_per_node > 1 && !network.bus)
      throw Malformed{"'bus' is missing, the bandwidth between the ranks of a node"};
    return network;
  } catch (const Malformed& malformed) {
    core::fail(core::ExitStatus::input,
               fmt::format("--network {}: {}; docs/performance.md describes the format", path,
                           malformed.what()));
  } catch (const json::exception&) {
    core::fail(core::ExitStatus::input,
               fmt::format("--network {}: the file is not valid JSON; docs/performance.md "
                           "describes the format",
                           path));
  }
}

std::vector<std::string> names_of(const json& entries) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries.items()) names.push_back(name);
  return names;
}

}  // namespace

std::vector<std::string> modelled_gpus() { return names_of(models()["gpus"]); }

GpuModel gpu_model(std::string_view name, core::Precision precision) {
  const auto entry = models()["gpus"].find(name);
  if (entry == models()["gpus"].end()) {
    core::fail(core::ExitStatus::usage,
               fmt::format("there is no performance model of the GPU '{}'; choose one of {}", name,
                           fmt::join(modelled_gpus(), ", ")));
  }
  Quantities all;
  all.add((*entry)["quantities"], models()["sources"]);
  all.add(models()["kernels"], models()["sources"]);
  const auto rate = all.find(fmt::format("product_{}", core::name(precision)));
  if (!rate) {
    core::fail(core::ExitStatus::usage,
               fmt::format("the performance model of the GPU '{}' has no rate of --precision {}",
                           name, core::name(precision)));
  }
  GpuModel gpu{.name = std::string(name),
               .product = (*entry)["product"].get<std::string>(),
               .flops_per_second = rate->middle(),
               .bytes_per_second = all.get("copy").middle(),
               .multiprocessors = all.get("multiprocessors").middle(),
               .second_level_cache = all.get("l2_cache").middle(),
               .on_chip_memory = all.get("on_chip_memory"),
               .convolution_rate = all.get("convolution_rate"),
               .narrow_tile = all.get("narrow_tile"),
               .convolution_bandwidth = all.get("convolution_bandwidth"),
               .batch_norm_bandwidth = all.get("batch_norm_bandwidth"),
               .streaming_bandwidth = all.get("streaming_bandwidth"),
               .kernel_gap = all.get("kernel_gap"),
               .kernel_minimum = all.get("kernel_minimum"),
               .timestamp = all.get("timestamp"),
               .graph_gap = all.get("graph_gap"),
               .nvlink_bus = all.find("nvlink_bus"),
               .nvlink_bus_of_8 = all.find("nvlink_bus_of_8"),
               .pcie_bus = all.find("pcie_bus"),
               .quantities = {}};
  all.keep_precision(core::name(precision));
  gpu.quantities = all.take();
  return gpu;
}

NetworkModel network_model(const std::string& name, const GpuModel& gpu) {
  const json& networks = models()["networks"];
  const auto entry = networks.find(name);
  if (entry == networks.end()) {
    if (std::filesystem::is_directory(name)) {
      core::fail(core::ExitStatus::input,
                 fmt::format("--network {}: this is a directory; name a JSON file", name));
    }
    if (std::filesystem::exists(name)) return read_network_file(name);
    core::fail(core::ExitStatus::usage,
               fmt::format("--network {}: this is neither a file nor one of {}", name,
                           fmt::join(names_of(networks), ", ")));
  }
  NetworkModel network = read_network(name, *entry, models()["sources"]);
  if (network.ranks_per_node == 1) return network;
  network.bus = name == "nvlink" ? gpu.nvlink_bus : gpu.pcie_bus;
  if (name == "nvlink") network.bus_of_8 = gpu.nvlink_bus_of_8;
  if (!network.bus) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--network {}: the performance model of the GPU '{}' has no such link; "
                           "use pcie, infiniband or a file",
                           name, gpu.name));
  }
  return network;
}

}  // namespace lockstep::train
