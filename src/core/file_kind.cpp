// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/file_kind.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/core/handle.hpp"

namespace lockstep::core {

namespace {

using namespace std::string_view_literals;
using Signature = std::pair<std::string_view, std::string_view>;

// file_kind.py of the report uses the same words.
constexpr std::array<Signature, 11> signatures{{{"\x89HDF\r\n\x1a\n"sv, hdf5_kind},
                                                {"PK\x05\x06"sv, "a ZIP archive"},
                                                {"\x1f\x8b"sv, "a gzip archive"},
                                                {"BZh"sv, "a bzip2 archive"},
                                                {"\xfd"
                                                 "7zXZ"sv,
                                                 "an xz archive"},
                                                {"\x28\xb5\x2f\xfd"sv, "a Zstandard archive"},
                                                {"\x93NUMPY"sv, "a NumPy array"},
                                                {"\x80\x02"sv, "a Python pickle"},
                                                {"\x80\x03"sv, "a Python pickle"},
                                                {"\x80\x04"sv, "a Python pickle"},
                                                {"\x80\x05"sv, "a Python pickle"}}};

constexpr std::array<Signature, 6> markup{{{"<!doctype html", "an HTML page"},
                                           {"<html", "an HTML page"},
                                           {"<?xml", "an XML text"},
                                           {"version https://git-lfs", "a pointer of Git LFS"},
                                           {"{", "a JSON text"},
                                           {"[{", "a JSON text"}}};

/// Returns the kind of a ZIP archive by the name of its first member.
std::string_view zip_kind(std::string_view head) {
  const std::string_view name = head.substr(std::min<std::size_t>(head.size(), 30), 200);
  if (name.find("data.pkl") != name.npos) return "a ZIP archive of PyTorch";
  if (name.find(".npy") != name.npos) return "a ZIP archive of NumPy arrays (.npz)";
  return "a ZIP archive";
}

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](unsigned char c) {
    return c >= ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
  });
}

std::string_view text_kind(std::string_view head) {
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  for (const auto& [mark, kind] : markup) {
    const bool begins =
        std::ranges::equal(head.substr(0, mark.size()), mark, {}, [](unsigned char c) {
          return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
        });
    if (begins) return kind;
  }
  return "a text";
}

}  // namespace

std::string_view content_kind(std::string_view head) noexcept {
  if (head.empty()) return "an empty file";
  if (head.starts_with("PK\x03\x04"sv)) return zip_kind(head);
  for (const auto& [signature, kind] : signatures) {
    if (head.starts_with(signature)) return kind;
  }
  if (head.find_first_not_of('\0') == head.npos) return "a file of zero bytes";
  if (head.size() > 262 && head.substr(257, 5) == "ustar") return "a tar archive";
  // safetensors: the length of a JSON header in 8 bytes, then the header.
  if (head.size() > 10 && head.substr(5, 5) == "\0\0\0{\""sv) return "a safetensors file";
  return is_text(head) ? text_kind(head) : unknown_kind;
}

std::string_view file_kind(const std::filesystem::path& path) noexcept {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return "no file";
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (!S_ISREG(status.st_mode)) return "no regular file";
  std::array<char, 4096> head{};
  const ssize_t bytes = ::read(file.get(), head.data(), head.size());
  return bytes < 0 ? "no file" : content_kind({head.data(), static_cast<std::size_t>(bytes)});
}

}  // namespace lockstep::core
