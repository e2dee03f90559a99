// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/file_kind.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "file_kinds_text.hpp"
#include "lockstep/core/handle.hpp"

namespace lockstep::core {

namespace {

using Words = std::vector<std::string>;

/// What a file of a kind contains. All members that are not empty must be found.
struct Sign {
  std::size_t at = 0;  ///< place of `bytes`
  std::string bytes;
  std::string has;         ///< found in the first `within` bytes
  std::size_t within = 0;  ///< bytes
  std::string begins;      ///< of a text, as `plain_text` returns it
  Words words;             ///< found anywhere in the text
  bool is_of_text() const { return !begins.empty() || !words.empty(); }
};

struct Kind {
  std::string name, advice;
  bool is_for_all_readers = false;  ///< `advice` helps whatever the file was read for
  std::vector<Sign> signs;
};

/// Returns the bytes of a JSON string in which each character is a byte.
std::string bytes_of(const std::string& utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto first = static_cast<unsigned char>(utf8[i]);
    bytes += first < 0x80 ? utf8[i]
                          : static_cast<char>((first & 0x3) << 6 |
                                              (static_cast<unsigned char>(utf8[++i]) & 0x3f));
  }
  return bytes;
}

Sign sign_of(const nlohmann::json& row) {
  return {.at = row.value("at", std::size_t{0}),
          .bytes = bytes_of(row.value("bytes", "")),
          .has = row.value("has", ""),
          .within = row.value("within", std::size_t{0}),
          .begins = row.value("begins", ""),
          .words = row.value("has_words", Words())};
}

const std::vector<Kind>& kinds() {
  // Never destroyed, as the schema of the run file.
  static const auto* const all = [] {
    auto* const found = new std::vector<Kind>;
    for (const auto& row : nlohmann::json::parse(file_kinds_text)) {
      Kind& kind = found->emplace_back(
          Kind{row.at("kind"), row.value("advice", ""), row.value("for_all_readers", false), {}});
      for (const auto& sign : row.at("signs")) kind.signs.push_back(sign_of(sign));
    }
    return found;
  }();
  return *all;
}

/// Returns a text in UTF-8 without its byte-order mark; the letters of UTF-16 beyond ASCII are '?'.
std::string decoded(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) return std::string(head.substr(3));
  const bool is_little = head.starts_with("\xff\xfe");
  if (!is_little && !head.starts_with("\xfe\xff")) return std::string(head);
  std::string text;
  for (std::size_t i = 2; i + 1 < head.size(); i += 2) {
    const char low = head[is_little ? i : i + 1], high = head[is_little ? i + 1 : i];
    text += high == 0 ? low : '?';
  }
  return text;
}

bool is_text(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) {
    return c >= ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\x1b';
  });
}

/// Returns the text in lower case with one blank for each sequence of blanks and line ends, none at
/// its begin, and a line end at its end.
std::string plain_text(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const bool is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (!is_blank) plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (is_blank && !plain.empty() && plain.back() != ' ') plain += ' ';
  }
  if (plain.ends_with(' ')) plain.pop_back();
  return plain + '\n';
}

bool is_found(const Sign& sign, std::string_view head) {
  const std::string_view rest = head.substr(std::min(sign.at, head.size()));
  return rest.starts_with(sign.bytes) &&
         head.substr(0, sign.within).find(sign.has) != std::string_view::npos;
}

bool is_found_in_text(const Sign& sign, const std::string& plain) {
  return plain.starts_with(sign.begins) && std::ranges::all_of(sign.words, [&](const auto& word) {
           return plain.find(word) != std::string::npos;
         });
}

/// Returns the first kind with a sign that `is_found`, or null.
template <class Predicate>
const Kind* find_kind(bool is_of_text, Predicate is_found) {
  for (const Kind& kind : kinds()) {
    for (const Sign& sign : kind.signs) {
      if (sign.is_of_text() == is_of_text && is_found(sign)) return &kind;
    }
  }
  return nullptr;
}

}  // namespace

std::string_view content_kind(std::string_view head) {
  if (head.empty()) return "an empty file";
  if (const Kind* kind = find_kind(false, [&](const Sign& sign) { return is_found(sign, head); }))
    return kind->name;
  if (head.find_first_not_of('\0') == head.npos) return "a file of zero bytes";
  const std::string text = decoded(head);
  if (!is_text(text)) return unknown_kind;
  const std::string plain = plain_text(text);
  const Kind* const kind =
      find_kind(true, [&](const Sign& sign) { return is_found_in_text(sign, plain); });
  return kind != nullptr ? std::string_view(kind->name) : "a text";
}

std::string_view file_kind(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return "no file";
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (!S_ISREG(status.st_mode)) return "no regular file";
  std::array<char, 4096> head{};
  const ssize_t bytes = ::read(file.get(), head.data(), head.size());
  return bytes < 0 ? "no file" : content_kind({head.data(), static_cast<std::size_t>(bytes)});
}

std::string_view advice_for_all_readers(std::string_view name) {
  const auto kind = std::ranges::find(kinds(), name, &Kind::name);
  const bool has_advice = kind != kinds().end() && kind->is_for_all_readers;
  return has_advice ? std::string_view(kind->advice) : std::string_view();
}

}  // namespace lockstep::core
