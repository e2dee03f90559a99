#include "lockstep/core/process/system.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "lockstep/core/file_kind.hpp"
#include "lockstep/core/format.hpp"

namespace lockstep::core {

namespace {

/// Returns the text after the colon in the first line that starts with `key` and has a colon, of a
/// file such as /proc/cpuinfo; empty if there is no such line.
std::string value_in(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const auto start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

/// Returns the number of bytes of a value such as "1234 kB"; empty if there is none.
std::optional<std::uint64_t> bytes_in(const std::filesystem::path& path, const std::string& key) {
  std::uint64_t kibibytes = 0;
  if (std::istringstream(value_in(path, key)) >> kibibytes) return kibibytes * 1024;
  return std::nullopt;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string cpu_model() { return value_in("/proc/cpuinfo", "model name"); }

std::uint64_t installed_memory() { return bytes_in("/proc/meminfo", "MemTotal").value_or(0); }

std::optional<std::uint64_t> available_host_memory(const std::filesystem::path& root) {
  return bytes_in(root / "proc/meminfo", "MemAvailable");
}

std::filesystem::path cache_directory() {
  if (const char* directory = std::getenv("LOCKSTEP_CACHE_DIR")) return directory;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::filesystem::path(cache) / "lockstep";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "lockstep";
  return {};
}

std::string read_option_file(std::string_view option, const std::filesystem::path& path,
                             ExitStatus status, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto bytes = static_cast<std::size_t>(file.gcount());
  if (bytes > most) {
    fail(status, fmt::format("{} {}: has more than {}; name a smaller file", option, path.string(),
                             format_bytes(double(most))));
  }
  // Reading to the end sets `eof`; a file that cannot be opened or read (a folder) does not.
  if (!file.eof()) {
    const std::string_view kind = file_kind(path);
    fail(status, fmt::format("{} {}: cannot be read ({}); check the path", option, path.string(),
                             kind == "no file" ? "there is no such file, or no permission" : kind));
  }
  text.resize(bytes);
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  const std::string_view kind = content_kind(text);
  if (!text.empty() && !kind.ends_with(" text")) {
    fail(status, fmt::format("{} {}: is {}, not a text; give the text file with the options or "
                             "parameters",
                             option, path.string(), kind));
  }
  return text;
}

ResidentMemory resident_memory() {
  return {bytes_in("/proc/self/status", "VmRSS").value_or(0),
          bytes_in("/proc/self/status", "VmHWM").value_or(0)};
}

AllocatedMemory allocated_memory() {
  return {bytes_in("/proc/self/status", "VmSize").value_or(0),
          bytes_in("/proc/self/status", "VmData").value_or(0)};
}

}  // namespace lockstep::core
