#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::backend::cuda {

/// An engine that was once found to be the fastest.
struct CachedEngine {
  std::string name;  ///< as in `EngineFacts`
  double seconds = 0;
  std::size_t workspace_bytes = 0;
};

/// Remembers engines on disk, so that only the first run on a kind of GPU times them. A JSON file;
/// several processes may use it: each writes a whole new file and renames it, the last one wins,
/// and an entry lost that way is measured again. What cannot be read or written is a warning, once.
class EngineCache {
 public:
  EngineCache() = default;  ///< remembers in memory only
  explicit EngineCache(std::filesystem::path file);

  /// LOCKSTEP_CACHE_DIR, else $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep; and in it
  /// "engines.json". Empty (none) where LOCKSTEP_CACHE_DIR is set and empty, or there is no home.
  static std::filesystem::path default_file();

  std::optional<CachedEngine> find(const std::string& key) const;
  void store(const std::string& key, const CachedEngine& engine);

  bool is_on_disk() const { return !file_.empty(); }

  /// The engine itself, as `OperationGraph::serialise` gave it, so that no later run builds it; in
  /// files beside the other ("plans"), one for each. None where nothing is kept on disk.
  std::optional<std::vector<std::uint8_t>> find_plan(const std::string& key) const;
  void store_plan(const std::string& key, std::span<const std::uint8_t> plan);

 private:
  void read();
  void write();
  void warn(const std::string& what);
  std::filesystem::path plan_file(const std::string& key) const;

  std::filesystem::path file_;
  std::map<std::string, CachedEngine> engines_;
  bool warned_ = false;
};

}  // namespace lockstep::backend::cuda
