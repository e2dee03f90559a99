// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::app {

/// Returns the number of insertions, deletions and replacements of one letter between two words
/// (Levenshtein, 1966).
std::size_t edit_distance(std::string_view left, std::string_view right);

/// Returns "; did you mean 'CANDIDATE'?" if a candidate is a synonym of `word` (gpu: cuda), starts
/// with it (at least three letters), or differs in few letters; otherwise an empty text.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

/// Returns "; did you mean 'CANDIDATE'?" with the candidates for which other programs use the name
/// `name`; otherwise an empty text.
std::string option_synonym(std::string_view name, const std::vector<std::string>& candidates);

/// As `suggestion`, for the name of an option without dashes: knows the names that other programs
/// give to options of this one.
std::string option_suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace lockstep::app
