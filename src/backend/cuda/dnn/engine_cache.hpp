// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace lockstep::backend::cuda {

/// The fastest engine found for a graph.
struct CachedEngine {
  std::string name;  ///< as in `EngineFacts`
  double seconds = 0;
};

/// Cache of selected engines in a JSON file, so that only the first run on a type of GPU has to
/// time them. Several processes can share the file: each process writes a new file and renames it.
/// If two write at the same time, the last one wins, and the lost entry is measured again. If the
/// file cannot be read or written, a warning is logged once. Plans contain machine code, so the
/// folder is created for this user only, and folders and files of other users, or that they can
/// write, are not used (`core::distrust`).
class EngineCache {
 public:
  EngineCache() = default;  ///< caches in memory only
  /// `file`: name of the file; empty: caches in memory only.
  explicit EngineCache(std::filesystem::path file);

  std::optional<CachedEngine> find(const std::string& key) const;
  void store(const std::string& key, const CachedEngine& engine);

  /// Names of engines of a graph whose kernels ended the use of the GPU, for example by an illegal
  /// memory access. No selection may run them again.
  std::set<std::string> faulty(const std::string& key) const;
  void store_faulty(const std::string& key, const std::string& engine);

  bool is_on_disk() const { return !file_.empty(); }

  /// Load and store the built execution plan of an engine, as serialised by
  /// `OperationGraph::serialise`, so that later runs need not build it. `engine`: its name. Each
  /// plan has its own file in the folder "plans" next to the cache file. `find_plan` returns
  /// std::nullopt if there is no such file or if the cache is in memory only.
  std::optional<std::vector<std::uint8_t>> find_plan(const std::string& key,
                                                     const std::string& engine) const;
  void store_plan(const std::string& key, const std::string& engine,
                  std::span<const std::uint8_t> plan);

 private:
  void read();
  void write();
  void warn(const std::string& what) const;
  /// Returns whether the path can be used; logs a warning if not.
  bool trusts(const std::filesystem::path& path) const;
  std::filesystem::path plan_file(const std::string& key) const;

  std::filesystem::path file_;
  std::map<std::string, CachedEngine> engines_;
  std::map<std::string, std::set<std::string>> faulty_;
  mutable bool warned_ = false;
};

}  // namespace lockstep::backend::cuda
