// SPDX-License-Identifier: BSD-3-Clause
// Tests that each CUDA kernel reads and writes as many bytes as its documentation says.

#include "traffic.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

namespace lockstep::backend::cuda::kernels::test {
namespace {

const std::filesystem::path backend = LOCKSTEP_CUDA_BACKEND;

std::string contents(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

const std::vector<Traffic>& all_cases() {
  static const std::vector<Traffic> cases = [] {
    std::vector<Traffic> all;
    for (const auto& some :
         {batch_norm_cases(), batch_norm_gradient_cases(), network_cases(), step_cases()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return cases;
}

/// Returns the types of kernels that the .cu files instantiate.
std::set<std::string> kernels_of_the_program() {
  const std::regex instantiation(R"(template void launch\(cudaStream_t, const ([\w:<>]+)&\)|)"
                                 R"(LOCKSTEP_LAUNCH_ALL_TYPES\((\w+)\))");
  std::set<std::string> kernels;
  for (const auto& entry : std::filesystem::directory_iterator(backend)) {
    if (entry.path().extension() != ".cu") continue;
    const std::string text = contents(entry.path());
    for (std::sregex_iterator match(text.begin(), text.end(), instantiation), end; match != end;
         ++match) {
      const std::string kernel = (*match)[1], of_all_types = (*match)[2];
      if (of_all_types.empty()) {
        kernels.insert(kernel);
        continue;
      }
      for (const char* type : {"float", "core::BFloat16", "Float16"})
        kernels.insert(fmt::format("{}<{}>", of_all_types, type));
    }
  }
  return kernels;
}

TEST(CudaMemoryTraffic, EveryKernelHasAFormula) {
  std::set<std::string> counted;
  for (const Traffic& traffic : all_cases()) counted.insert(traffic.kernel);
  EXPECT_GT(counted.size(), 60u);
  EXPECT_EQ(counted, kernels_of_the_program());
}

/// Returns one line for each tensor whose counted bytes differ from the expected bytes.
std::vector<std::string> differences(const Traffic& traffic) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < traffic.expected.size(); ++i) {
    const Access& want = traffic.expected[i];
    const Counted& got = traffic.counted[i];
    const std::string where =
        fmt::format("{}{}{}, {}: ", traffic.kernel, traffic.variant.empty() ? "" : " ",
                    traffic.variant, want.tensor);
    if (want.is_table ? got.read > want.read : got.read != want.read)
      lines.push_back(fmt::format("{}{} bytes read, formula {}{}", where, got.read,
                                  want.is_table ? "at most " : "", want.read));
    if (got.written != want.written)
      lines.push_back(
          fmt::format("{}{} bytes written, formula {}", where, got.written, want.written));
    const double bytes = static_cast<double>(want.read + want.written);
    if (const double ratio = static_cast<double>(got.sector_bytes) / bytes;
        !want.is_table && ratio > want.sector_ratio)
      lines.push_back(fmt::format("{}sectors of {:.2f} times the accessed bytes, limit {:.2f}",
                                  where, ratio, want.sector_ratio));
  }
  return lines;
}

TEST(CudaMemoryTraffic, DifferencesFromTheFormulaAreReported) {
  using ::testing::ElementsAre;
  std::vector<std::vector<std::string>> lines;
  for (const Traffic& traffic : seeded_cases()) lines.push_back(differences(traffic));
  EXPECT_THAT(
      lines, ElementsAre(
                 ElementsAre("TwoPasses, x: 8192 bytes read, formula 4096",
                             "TwoPasses, x: sectors of 16.00 times the accessed bytes, limit 8.00"),
                 ElementsAre("Transposition, x: sectors of 8.00 times the accessed bytes, "
                             "limit 1.00"),
                 ElementsAre("Transposition as a table, x: 4096 bytes read, "
                             "formula at most 4")));
}

TEST(CudaMemoryTraffic, AgreesWithTheFormulas) {
  for (const Traffic& traffic : all_cases()) {
    for (const std::string& line : differences(traffic)) ADD_FAILURE() << line;
  }
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns the sentence that the documentation of the kernel must contain.
std::string sentence(const Traffic& traffic) {
  std::vector<std::string> read, written, tables, parts;
  for (const Access& access : traffic.expected) {
    const std::string name = access.tensor + (access.note.empty() ? "" : " (" + access.note + ")");
    if (access.is_table) {
      tables.push_back(name);
      continue;
    }
    if (access.read > 0) read.push_back(name);
    if (access.written > 0) written.push_back(access.tensor);
  }
  if (!read.empty()) parts.push_back("reads " + joined(read));
  if (!written.empty()) parts.push_back("writes " + joined(written));
  if (!tables.empty()) parts.push_back("from caches: " + joined(tables));
  return fmt::format("Memory traffic: {}.", fmt::join(parts, "; "));
}

/// Returns the text of the documentation comment of each struct in the headers of the kernels.
std::map<std::string, std::string> documentation() {
  std::map<std::string, std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(backend / "kernels")) {
    std::ifstream stream(entry.path());
    std::string comment;
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("/// ")) {
        comment += (comment.empty() ? "" : " ") + line.substr(4);
      } else if (line.starts_with("struct ")) {
        texts[line.substr(7, line.find(' ', 7) - 7)] = comment;
      } else if (!line.starts_with("template")) {
        comment.clear();
      }
    }
  }
  return texts;
}

TEST(CudaMemoryTraffic, FormulasAreDocumented) {
  const auto texts = documentation();
  for (const Traffic& traffic : all_cases()) {
    const std::string kernel = traffic.kernel.substr(0, traffic.kernel.find('<'));
    if (!traffic.variant.empty()) continue;
    const auto text = texts.find(kernel);
    ASSERT_NE(text, texts.end()) << traffic.kernel;
    EXPECT_THAT(text->second, ::testing::HasSubstr(sentence(traffic))) << traffic.kernel;
  }
}

}  // namespace
}  // namespace lockstep::backend::cuda::kernels::test
