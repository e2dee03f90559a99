// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/counter_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace lockstep::core {

CounterFile::CounterFile(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), error_number_(file_ ? 0 : errno) {}

std::string_view CounterFile::read(std::span<char> buffer) const {
  if (!file_) return {};
  std::size_t filled = 0;
  // The kernel may return a long file in several parts.
  while (filled < buffer.size()) {
    const auto part = ::pread(file_.get(), buffer.data() + filled, buffer.size() - filled,
                              static_cast<off_t>(filled));
    if (part < 0) return {};
    if (part == 0) break;
    filled += static_cast<std::size_t>(part);
  }
  return {buffer.data(), filled};
}

std::optional<std::uint64_t> CounterFile::number() const {
  std::array<char, 32> buffer;
  std::string_view text = read(buffer);
  text = text.substr(0, text.find('\n'));
  return parse_number(take_field(text));
}

std::string_view take_field(std::string_view& text) {
  constexpr std::string_view separators = " \t:";
  text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
  const std::string_view field = text.substr(0, text.find_first_of(separators));
  text.remove_prefix(field.size());
  return field;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace lockstep::core
