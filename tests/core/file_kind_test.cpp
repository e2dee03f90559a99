// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/file_kind.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace lockstep::core {
namespace {

using namespace std::string_view_literals;

TEST(FileKind, RecognisesContents) {
  const std::string zip = "PK\x03\x04" + std::string(26, 'x');
  const std::string tar = "name" + std::string(253, '\0') + "ustar" + std::string(100, '\0');
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "an empty file"},
      {"\0\0\0"sv, "a file of zero bytes"},
      {zip, "a ZIP archive"},
      {"\x1f\x8b\x08"sv, "a gzip archive"},
      {tar, "a tar archive"},
      {"\x80\x02}q"sv, "a Python pickle"},
      {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
      {" \n<!DOCTYPE HTML><p>login"sv, "an HTML page"},
      {"{\"a\": 1}"sv, "a JSON text"},
      {"lr = 1\n"sv, "a text"},
      {"[section]\nlr = 1\n"sv, "a text"},
      {"\x50\1\0\0\0\0\0\0{\"x\":1}"sv, "a safetensors file"},
      {"version https://git-lfs.github.com/spec/v1\noid"sv, "a pointer of Git LFS"},
      {"\0\5\26\7\0\2"sv, "an AppleDouble file of macOS"},
      {"\xff\xfe<\0h\0T\0m\0l\0"sv, "an HTML page"},
      {"# OSU MPI Allreduce  Latency Test v7.3\n"sv, "an output of the OSU benchmarks"},
      {"SQLite format 3\0"sv, "an SQLite database"},
      {"\x89PNG"sv, "a PNG image"},
      {"\7\xff\xfe\x80"sv, unknown_kind}};
  for (const auto& [head, kind] : cases) EXPECT_EQ(content_kind(head), kind) << head;
  EXPECT_EQ(content_kind(zip + "archive/data.pkl"), "a ZIP archive of PyTorch");
  EXPECT_EQ(content_kind(zip + "conv1.weight.npy"), "a ZIP archive of NumPy arrays (.npz)");
}

TEST(FileKind, AdviceThatHelpsAllReaders) {
  EXPECT_EQ(advice_for_all_readers("a pointer of Git LFS"), "fetch its content: git lfs pull");
  EXPECT_EQ(advice_for_all_readers("a gzip archive"), "");
  EXPECT_EQ(advice_for_all_readers("no such kind"), "");
}

TEST(FileKind, OfPaths) {
  EXPECT_EQ(file_kind("/"), "a folder");
  EXPECT_EQ(file_kind("/dev/zero"), "no regular file");
  EXPECT_EQ(file_kind("/no/such/file"), "no file");
  const std::string path = testing::TempDir() + "lockstep-file-kind";
  std::ofstream(path) << "text";
  EXPECT_EQ(file_kind(path), "a text");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep::core
