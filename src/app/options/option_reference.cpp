// SPDX-License-Identifier: BSD-3-Clause
#include "option_reference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "command_set.hpp"
#include "option_table.hpp"

namespace lockstep::app {

namespace {

/// Returns the values of an option with their meaning, for example "auto (...), direct (oneDNN)".
std::string describe_values(const Option& option) {
  std::vector<std::string> texts;
  for (const ValueName& value : option.value.names) {
    texts.push_back(value.help.empty() ? value.name
                                       : fmt::format("{} ({})", value.name, value.help));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Returns the commands that use an option, or "all"; `plan` follows from `train`.
std::string describe_commands(const Option& option) {
  if (option.commands == cmd_all) return "all";
  std::vector<std::string> users;
  for (const auto& command : command_names()) {
    const bool follows = command == "plan" && is_used("train", option);
    if (is_used(command, option) && !follows) users.push_back(command);
  }
  return fmt::format("{}", fmt::join(users, ", "));
}

/// Returns what an option affects, with an asterisk if a run on one rank does not use it.
std::string describe_effect(const Effect& effect) {
  if (effect.affects == Affects::neither) return "";
  return fmt::format("{}{}", core::name(effect.affects), effect.needs_several_ranks ? "*" : "");
}

std::string page_row(const Option& option) {
  const std::string value = option.value.is_flag() ? "" : fmt::format(" {}", option.value_name);
  std::string text(option.help);
  if (!option.value.names.empty()) text += ": " + describe_values(option);
  if (!option.details.empty()) text += fmt::format(". {}", option.details);
  const std::string shown = option.value.is_flag() ? "off" : option.default_text();
  const std::string letter = option.letter.empty() ? "" : fmt::format("`-{}`, ", option.letter);
  return fmt::format("|{}`--{}{}`|{}|{}|{}|{}|\n", letter, option.name, value, shown,
                     describe_commands(option), describe_effect(option.effect), text);
}

std::string title_of(OptionGroup group) {
  return group == OptionGroup::single_command ? "Options of single commands"
                                              : std::string(core::name(group));
}

}  // namespace

std::string options_page() {
  std::string page;
  for (const auto& group : named_values(OptionGroup{})) {
    page += fmt::format(
        "{}## {}\n\n|option|default|commands|affects|description|\n|---|---|---|---|---|\n",
        page.empty() ? "" : "\n", title_of(group.value));
    for (const Option& option : options()) {
      if (option.group == group.value) page += page_row(option);
    }
  }
  return page;
}

std::string options_json() {
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  for (const Option& option : options()) {
    std::vector<std::string> commands;
    for (const auto& command : command_names()) {
      if (is_used(command, option)) commands.push_back(command);
    }
    nlohmann::ordered_json values = nlohmann::ordered_json::array();
    for (const ValueName& value : option.value.names) {
      values.push_back({{"name", value.name}, {"help", value.help}});
    }
    table.push_back({{"name", option.name},
                     {"group", core::name(option.group)},
                     {"type", option.value.type},
                     {"range", option.value.range},
                     {"values", values},
                     {"default", option.value.is_flag() ? "false" : option.default_text()},
                     {"commands", commands},
                     {"across_ranks", option.may_differ ? "may differ" : "equal"},
                     {"effect", core::name(option.effect.affects)},
                     {"effect_requires", option.effect.needs_several_ranks ? "several ranks" : ""},
                     {"recorded", option.is_recorded()},
                     {"help", option.help},
                     {"details", option.details}});
  }
  return table.dump(2) + "\n";
}

}  // namespace lockstep::app
