// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: any command line, environment and configuration file must either be accepted or give
// a usage error. The input consists of parts that end with a zero byte: entries of the environment
// start with "LOCKSTEP_", lines of the file of --config with "@"; all others are arguments. Any
// other behaviour aborts.

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz_target.hpp"
#include "options/option_table.hpp"
#include "options/parse.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  static const fuzz::MemoryDirectory directory;
  std::vector<std::string> arguments;
  app::Environment environment;
  std::string file;
  for (const std::uint8_t *at = data, *end = data + size; at < end;) {
    const std::uint8_t* stop = std::find(at, end, 0);
    const std::string part(at, stop);
    at = stop + (stop == end ? 0 : 1);
    if (part.starts_with("@")) {
      file += part.substr(1) + "\n";
    } else if (part.starts_with("LOCKSTEP_")) {
      environment.push_back(part);
    } else {
      arguments.push_back(part);
    }
    // Another file could be a pipe, which blocks.
    if (part.starts_with("LOCKSTEP_CONFIG=") || part.starts_with("--config")) return 0;
  }
  if (!file.empty()) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data());
    arguments.push_back("--config=" + directory.write("options", {bytes, file.size()}).string());
  }
  fuzz::returns_or_fails(core::ExitStatus::usage, [&] {
    const app::Options options = app::parse_options(arguments, environment);
    if (app::entries(options).empty()) std::abort();
  });
  return 0;
}
