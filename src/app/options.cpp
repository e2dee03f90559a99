#include "options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "help.hpp"
#include "lockstep/core/error.hpp"
#include "option_table.hpp"
#include "suggestion.hpp"

namespace lockstep::app {

namespace po = boost::program_options;

namespace {

constexpr std::string_view prefix = "LOCKSTEP_";

[[noreturn]] void fail(const std::string& message) { core::fail(core::ExitStatus::usage, message); }

/// Mutually exclusive options: if one is given in a source of higher precedence, the other is
/// ignored in sources of lower precedence.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> mutually_exclusive{
    {{"batch-per-rank", "global-batch"}, {"epochs", "steps"}}};

/// Adds the options in `parsed` to `values`, except those that an earlier source overrides.
void add(const po::basic_parsed_options<char>& parsed, po::variables_map& values) {
  std::set<std::string, std::less<>> overridden;
  for (const auto& [left, right] : mutually_exclusive) {
    if (values.count(std::string(left)) > 0) overridden.emplace(right);
    if (values.count(std::string(right)) > 0) overridden.emplace(left);
  }
  po::basic_parsed_options<char> kept(parsed.description, parsed.m_options_prefix);
  std::ranges::copy_if(parsed.options, std::back_inserter(kept.options),
                       [&](const auto& option) { return !overridden.contains(option.string_key); });
  po::store(kept, values);
}

po::parsed_options parse_command_line(const std::vector<std::string>& arguments,
                                      const OptionTable& table) {
  namespace style = po::command_line_style;
  auto parsed = po::command_line_parser(arguments)
                    .options(table.all())
                    .style(style::default_style & ~style::allow_guessing)
                    .run();
  for (const auto& option : parsed.options) {
    if (option.position_key >= 0) {
      fail(fmt::format("unexpected argument '{}'; options start with --, see --help",
                       option.value.empty() ? "" : option.value.front()));
    }
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
po::parsed_options parse_environment(const Environment& environment, const OptionTable& table) {
  const auto names = table.names();
  po::parsed_options parsed(&table.all());
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(prefix) || equals == std::string::npos) continue;
    const std::string variable = entry.substr(0, equals);
    const std::string name = option_name(variable);
    if (std::ranges::find(names, name) != names.end()) {
      parsed.options.emplace_back(name, std::vector{entry.substr(equals + 1)});
      continue;
    }
    for (const std::string& known : names) {
      if (name.size() > 4 && edit_distance(name, known) <= 2) {
        fail(fmt::format("the environment variable {} is no option; did you mean the one for --{}?",
                         variable, known));
      }
    }
  }
  return parsed;
}

po::parsed_options parse_file(const std::string& path, const OptionTable& table) {
  std::ifstream file(path);
  if (!file) fail(fmt::format("--config {}: the file cannot be read; check the path", path));
  return po::parse_config_file(file, table.all());
}

/// Throws `Error` (usage) for an option on the command line that `command` does not use. The
/// environment and the file of --config may contain such options, because commands share them.
void require_used(const po::parsed_options& parsed, std::string_view command,
                  const OptionTable& table) {
  for (const auto& option : parsed.options) {
    if (table.is_used(command, option.string_key)) continue;
    fail(
        fmt::format("'lockstep {0}' does not use --{1}; remove it (lockstep {0} --help lists the "
                    "options)",
                    command, option.string_key));
  }
}

/// Calls `parse` and converts exceptions of Boost to `Error` (usage) with messages of this program.
/// `where`: prefix of the messages that names the source.
template <class Parse>
void explained(const std::string& where, std::string_view command, const OptionTable& table,
               Parse parse) {
  try {
    parse();
  } catch (const po::unknown_option& error) {
    std::string name = error.get_option_name();
    name.erase(0, name.find_first_not_of('-'));
    fail(fmt::format("{}unknown option --{}{} (--help lists all)", where, name,
                     suggestion(name, table.names_of(command))));
  } catch (const po::multiple_occurrences& error) {
    fail(fmt::format("{}option {} is given twice; give it once", where, error.get_option_name()));
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

std::optional<std::string> information_asked_for(const std::vector<std::string>& arguments) {
  const auto asks = [&](std::string_view name, std::string_view letter) {
    return std::ranges::any_of(
        arguments, [&](const auto& argument) { return argument == name || argument == letter; });
  };
  if (asks("--version", "-V")) return version_text();
  if (arguments.empty() || arguments.front() == "help") return overview_text();
  if (!asks("--help", "-h")) return std::nullopt;
  if (!is_command(arguments.front())) return overview_text();
  train::Config config;
  return help_text(arguments.front(), OptionTable(config));
}

train::Config parse_options(const std::vector<std::string>& arguments,
                            const Environment& environment) {
  if (arguments.empty() || !is_command(arguments.front())) {
    const std::string word = arguments.empty() ? "" : arguments.front();
    fail(fmt::format("there is no command '{}'; there are: {}{}", word,
                     fmt::join(command_names(), ", "), suggestion(word, command_names())));
  }
  train::Config config;
  config.command = arguments.front();
  const OptionTable table(config);
  const std::vector<std::string> options(arguments.begin() + 1, arguments.end());
  po::variables_map values;
  const std::string& command = config.command;
  explained("", command, table, [&] {
    const auto parsed = parse_command_line(options, table);
    require_used(parsed, command, table);
    add(parsed, values);
  });
  explained("environment: ", command, table,
            [&] { add(parse_environment(environment, table), values); });
  if (values.count("config") > 0) {
    const auto path = values["config"].as<std::string>();
    explained(path + ": ", command, table, [&] { add(parse_file(path, table), values); });
  }
  explained("", command, table, [&] { po::notify(values); });
  return config;
}

}  // namespace lockstep::app
