// SPDX-License-Identifier: BSD-3-Clause
#include "library_version.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

namespace lockstep::comm {

namespace {

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)) != 0; }

/// Returns the version if the word is one, such as "v5.0.11" or "2021.19"; otherwise an empty text.
std::string version_in(std::string_view word) {
  if (word.starts_with('v')) word.remove_prefix(1);
  return word.empty() || !is_digit(word.front()) ? "" : std::string(word);
}

/// Returns whether the word is no part of a name, for example in "MPICH Version:  5.0.2".
bool is_filler(const std::string& word) {
  constexpr std::array<std::string_view, 6> fillers{":",       "Library", "Version",
                                                    "version", "VERSION", "Version:"};
  return std::ranges::find(fillers, word) != fillers.end();
}

}  // namespace

std::string name_and_version(std::string_view description) {
  std::string line(description.substr(0, description.find_first_of(",\n")));
  // Cray writes "MPI VERSION    : CRAY MPICH version 8.1".
  if (line.starts_with("MPI VERSION")) line.erase(0, line.find(':') + 1);
  std::istringstream words(line);
  std::string name;
  for (std::string word; words >> word;) {
    if (const std::string version = version_in(word); !version.empty() && !name.empty())
      return name + ' ' + version;
    if (const auto mark = word.find("(R)"); mark != std::string::npos) word.erase(mark, 3);
    if (!is_filler(word) && !word.empty()) name += name.empty() ? word : ' ' + word;
  }
  return line;
}

}  // namespace lockstep::comm
