// SPDX-License-Identifier: BSD-3-Clause
#include "parse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "command_set.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_kind.hpp"
#include "lockstep/core/format.hpp"
#include "option_table.hpp"
#include "suggestion.hpp"

namespace lockstep::app {

namespace po = boost::program_options;

namespace {

constexpr std::string_view prefix = "LOCKSTEP_";

[[noreturn]] void fail(const std::string& message) { core::fail(core::ExitStatus::usage, message); }

/// Returns the descriptions of all options for Boost, with the letters of those that `command`
/// uses.
po::options_description describe_options(std::string_view command) {
  po::options_description described;
  for (const Option& option : options()) {
    auto* value = po::value<std::string>();
    if (option.value.is_flag()) value->zero_tokens();
    const std::string names = is_used(command, option) ? option.names() : std::string(option.name);
    described.add_options()(names.c_str(), value);
  }
  return described;
}

/// The texts of the options that were given, by name.
using Given = std::map<std::string, std::string, std::less<>>;

/// Stores the options of a source in `values`, and adds them to `given`, the options of the sources
/// of higher precedence. Only checks the value of an option if it, or its alternative, is in
/// `given`. `where`: prefix of messages that names the source.
void store(const po::parsed_options& parsed, const std::string& where, Options& values,
           Given& given) {
  Given own;
  Options overridden;
  for (const auto& each : parsed.options) {
    const Option& option = *find_option(each.string_key);
    const std::string& text = each.value.front();
    if (!own.emplace(option.name, text).second)
      fail(fmt::format("{}option --{} is given twice; give it once", where, option.name));
    const bool is_overridden = given.contains(option.name) || given.contains(option.alternative);
    try {
      option.value.parse(is_overridden ? overridden : values, option.name, text);
    } catch (const core::Error& error) {
      fail(where + error.what());
    }
  }
  given.merge(own);
}

po::parsed_options parse_command_line(const std::vector<std::string>& arguments,
                                      const po::options_description& described) {
  namespace style = po::command_line_style;
  auto parsed = po::command_line_parser(arguments)
                    .options(described)
                    .style(style::default_style & ~style::allow_guessing)
                    .run();
  for (auto& option : parsed.options) {
    if (option.position_key >= 0) {
      fail(fmt::format("unexpected argument '{}'; options start with --, see --help",
                       option.value.empty() ? "" : option.value.front()));
    }
    if (option.value.empty()) option.value.emplace_back("true");  // a flag
  }
  return parsed;
}

std::string option_name(std::string_view variable) {
  std::string name(variable.substr(prefix.size()));
  std::ranges::transform(name, name.begin(), [](unsigned char letter) {
    return letter == '_' ? '-' : static_cast<char>(std::tolower(letter));
  });
  return name;
}

/// Reads the variables that name an option. Other variables are ignored, because a modulefile may
/// set LOCKSTEP_ROOT, except those that resemble a misspelt option: they are errors.
po::parsed_options parse_environment(const Environment& environment,
                                     const po::options_description& described) {
  const auto names = option_names();
  po::parsed_options parsed(&described);
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(prefix) || equals == std::string::npos) continue;
    const std::string variable = entry.substr(0, equals);
    const std::string name = option_name(variable);
    if (std::ranges::find(names, name) != names.end()) {
      parsed.options.emplace_back(name, std::vector{entry.substr(equals + 1)});
      continue;
    }
    if (name.size() <= 4) continue;
    std::string meant = option_synonym(name, names);
    for (const std::string& known : names) {
      if (meant.empty() && edit_distance(name, known) <= 2)
        meant = fmt::format("; did you mean the one of --{}?", known);
    }
    if (!meant.empty())
      fail(fmt::format("the environment variable {} does not name an option{}", variable, meant));
  }
  return parsed;
}

/// Returns the text of the file or pipe of --config. The limit is far above the size of a correct
/// one, so that reading a device without an end terminates.
std::string read_file(const std::string& path) {
  constexpr std::size_t most = 1'000'000;
  std::ifstream file(path, std::ios::binary);
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto bytes = static_cast<std::size_t>(file.gcount());
  if (bytes > most) {
    fail(fmt::format("--config {}: has more than {}; name a smaller file", path,
                     core::format_bytes(double(most))));
  }
  // Reading to the end sets `eof`; a file that cannot be opened or read (a folder) does not.
  if (!file.eof()) {
    const std::string_view kind = core::file_kind(path);
    fail(fmt::format("--config {}: cannot be read ({}); check the path", path,
                     kind == "no file" ? "there is no such file, or no permission" : kind));
  }
  text.resize(bytes);
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  const std::string_view kind = core::content_kind(text);
  if (!text.empty() && kind != "a text")
    fail(fmt::format("--config {}: is {}; give a text with one option per line", path, kind));
  return text;
}

/// Throws `Error` (usage) for an option on the command line that `command` does not use. The
/// environment and the file of --config may contain such options, because commands share them.
void require_used(const po::parsed_options& parsed, std::string_view command) {
  for (const auto& option : parsed.options) {
    const Option* known = find_option(option.string_key);
    if (known != nullptr && is_used(command, *known)) continue;
    fail(
        fmt::format("'lockstep {0}' does not use --{1}; remove it (lockstep {0} --help-all lists "
                    "the options)",
                    command, option.string_key));
  }
}

std::string without_dashes(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  return name;
}

[[noreturn]] void fail_unknown(const std::string& where, const std::string& option,
                               std::string_view command) {
  // Boost does not remove the value of an unknown option.
  const std::string name = without_dashes(option.substr(0, option.find('=')));
  fail(fmt::format("{}unknown option --{}{} (--help-all lists all)", where, name,
                   option_suggestion(name, option_names(command))));
}

/// Calls `parse` and converts exceptions of Boost to `Error` (usage) with messages of this program.
/// `where`: prefix of the messages that names the source. `what` is not called for errors that
/// name an option, because it never returns if a text of the user that they contain has a
/// placeholder of Boost, such as %value%.
template <class Parse>
void explained(const std::string& where, std::string_view command, Parse parse) {
  try {
    parse();
  } catch (const po::unknown_option& error) {
    fail_unknown(where, error.get_option_name(), command);
  } catch (const po::invalid_config_file_syntax& error) {
    fail(fmt::format("{}the line '{}' is not NAME = VALUE; see --help", where, error.tokens()));
  } catch (const po::error_with_option_name& error) {
    // Boost has not yet searched the name if a value is missing after '='.
    const std::string name = without_dashes(error.get_option_name());
    const Option* option = find_option(name);
    if (option == nullptr) fail_unknown(where, name, command);
    if (option->value.is_flag()) {
      fail(fmt::format("{}option --{} takes no value; see --help", where, name));
    }
    fail(fmt::format("{0}option --{1} requires a value: --{1} {2} ({3})", where, name,
                     option->value_name, option->description()));
  } catch (const po::error& error) {
    fail(fmt::format("{}{}; see --help", where, error.what()));
  }
}

}  // namespace

Environment process_environment() {
  Environment entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    entries.emplace_back(*entry);
  }
  return entries;
}

Options parse_options(const std::vector<std::string>& arguments, const Environment& environment) {
  const std::string command = arguments.empty() ? "" : arguments.front();
  const auto commands = command_names();
  if (std::ranges::find(commands, command) == commands.end()) {
    fail(fmt::format("unknown command '{}'; the commands are: {}{}", command,
                     fmt::join(commands, ", "), suggestion(command, commands)));
  }
  Options values;
  values.command = command;
  const po::options_description described = describe_options(command);
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  Given given;
  explained("", command, [&] {
    const auto parsed = parse_command_line(rest, described);
    require_used(parsed, command);
    store(parsed, "", values, given);
  });
  explained("environment: ", command, [&] {
    store(parse_environment(environment, described), "environment: ", values, given);
  });
  if (const auto file = given.find("config"); file != given.end()) {
    const std::string path = parse_path("config", file->second);
    explained(path + ": ", command, [&] {
      std::istringstream stream(read_file(path));
      store(po::parse_config_file(stream, described), path + ": ", values, given);
    });
  }
  return values;
}

}  // namespace lockstep::app
