// SPDX-License-Identifier: BSD-3-Clause
#include "engine_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cudnn_frontend/thirdparty/nlohmann/json.hpp>
#include <fstream>
#include <functional>
#include <sstream>
#include <system_error>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/trust.hpp"

namespace lockstep::backend::cuda {
namespace {

constexpr int format_version = 3;

/// Writes `text` to a temporary file next to `file` and renames it to `file`. Returns false if
/// either step fails.
bool replace(const std::filesystem::path& file, const std::string& text) {
  std::string temporary = file.string() + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return false;
  close(descriptor);
  std::ofstream stream(temporary, std::ios::binary);
  stream << text;
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(temporary, file, error);
  if (stream && !error) return true;
  std::remove(temporary.c_str());
  return false;
}

/// Returns the contents of a file; empty if it cannot be read.
std::string read_file(const std::filesystem::path& file) {
  const std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;  // unlike an iterator, it throws nothing if reading fails
  return text << stream.rdbuf() ? text.str() : "";
}

/// Several processes may store plans of different engines for the same graph.
std::string plan_key(const std::string& graph, const std::string& engine) {
  return fmt::format("{} | {}", graph, engine);
}

}  // namespace

EngineCache::EngineCache(std::filesystem::path file) : file_(std::move(file)) {
  if (!file_.empty() && !(trusts(file_.parent_path()) && trusts(file_))) file_.clear();
  read();
}

bool EngineCache::trusts(const std::filesystem::path& path) const {
  const std::string reason = core::distrust(path);
  if (!reason.empty())
    warn(
        fmt::format("the cache of engines in {} is not used, because {}; remove it, or set "
                    "LOCKSTEP_CACHE_DIR to a directory of your own",
                    path.string(), reason));
  return reason.empty();
}

std::optional<CachedEngine> EngineCache::find(const std::string& key) const {
  if (const auto found = engines_.find(key); found != engines_.end()) return found->second;
  return std::nullopt;
}

void EngineCache::store(const std::string& key, const CachedEngine& engine) {
  read();  // another process may have added entries meanwhile
  engines_[key] = engine;
  write();
}

std::set<std::string> EngineCache::faulty(const std::string& key) const {
  const auto found = faulty_.find(key);
  return found != faulty_.end() ? found->second : std::set<std::string>();
}

void EngineCache::store_faulty(const std::string& key, const std::string& engine) {
  read();
  faulty_[key].insert(engine);
  write();
}

std::filesystem::path EngineCache::plan_file(const std::string& key) const {
  return file_.parent_path() / "plans" / fmt::format("{:016x}", std::hash<std::string>()(key));
}

std::optional<std::vector<std::uint8_t>> EngineCache::find_plan(const std::string& graph,
                                                                const std::string& engine) const {
  if (file_.empty()) return std::nullopt;
  const std::string key = plan_key(graph, engine);
  const std::filesystem::path file = plan_file(key);
  if (!trusts(file.parent_path()) || !trusts(file)) return std::nullopt;
  const std::string text = read_file(file);
  // The file begins with the key. A file of another key with the same hash is ignored.
  if (text.size() <= key.size() || !text.starts_with(key) || text[key.size()] != '\0')
    return std::nullopt;
  return std::vector<std::uint8_t>(text.begin() + static_cast<std::ptrdiff_t>(key.size()) + 1,
                                   text.end());
}

void EngineCache::store_plan(const std::string& graph, const std::string& engine,
                             std::span<const std::uint8_t> plan) {
  if (file_.empty()) return;
  const std::string key = plan_key(graph, engine);
  const std::filesystem::path file = plan_file(key);
  core::create_directories(file.parent_path(), core::private_directory);
  std::string text = key + '\0';
  text.append(plan.begin(), plan.end());
  if (!replace(file, text))
    warn(
        fmt::format("{} cannot be written: the next run builds cuDNN's engines again; set "
                    "LOCKSTEP_CACHE_DIR",
                    file.string()));
}

void EngineCache::read() {
  if (file_.empty()) return;
  std::error_code error;
  if (!std::filesystem::exists(file_, error)) return;  // nothing is cached yet
  try {
    const auto contents = nlohmann::json::parse(read_file(file_));
    if (contents.at("format").get<int>() != format_version) return;
    for (const auto& [key, entry] : contents.at("engines").items())
      engines_[key] = {entry.at("engine").get<std::string>(), entry.at("seconds").get<double>()};
    if (!contents.contains("faulty")) return;  // written by an earlier version
    for (const auto& [key, names] : contents.at("faulty").items())
      faulty_[key].merge(names.get<std::set<std::string>>());
  } catch (const nlohmann::json::exception&) {
    warn(fmt::format("{} is damaged and ignored: engines are timed again", file_.string()));
  }
}

void EngineCache::write() {
  if (file_.empty()) return;
  auto engines = nlohmann::json::object();
  for (const auto& [key, engine] : engines_)
    engines[key] = {{"engine", engine.name}, {"seconds", engine.seconds}};
  const nlohmann::json contents = {
      {"format", format_version}, {"engines", std::move(engines)}, {"faulty", faulty_}};
  core::create_directories(file_.parent_path(), core::private_directory);
  if (!replace(file_, contents.dump(1) + "\n"))
    warn(
        fmt::format("{} cannot be written: the next run times cuDNN's engines again; set "
                    "LOCKSTEP_CACHE_DIR",
                    file_.string()));
}

void EngineCache::warn(const std::string& what) const {
  if (!std::exchange(warned_, true)) core::log_warning(what);
}

}  // namespace lockstep::backend::cuda
