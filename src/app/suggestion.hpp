#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::app {

/// Insertions, deletions and replacements of one letter between two words (Levenshtein, 1966).
std::size_t edit_distance(std::string_view left, std::string_view right);

/// "; did you mean 'CANDIDATE'?" where a candidate is near enough, else nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace lockstep::app
