#include "suggestion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace lockstep::app {

std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= left.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t replaced = diagonal + (left[i - 1] == right[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

namespace {

using Pair = std::pair<std::string_view, std::string_view>;
/// Names that other programs use for option values of this program.
constexpr std::array<Pair, 8> synonyms{{{"gpu", "cuda"},
                                        {"nvidia", "cuda"},
                                        {"host", "cpu"},
                                        {"float32", "fp32"},
                                        {"single", "fp32"},
                                        {"float16", "fp16"},
                                        {"half", "fp16"},
                                        {"bfloat16", "bf16"}}};

const std::string* closest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = 1 + word.size() / 3;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance <= best_distance && (best == nullptr || distance < best_distance)) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best;
}

/// Returns the first candidate that starts with `word`, if `word` has at least three letters.
const std::string* completion(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() < 3) return nullptr;
  const auto found = std::ranges::find_if(
      candidates, [&](const std::string& candidate) { return candidate.starts_with(word); });
  return found == candidates.end() ? nullptr : &*found;
}

const std::string* synonym(std::string_view word, const std::vector<std::string>& candidates) {
  const auto known = std::ranges::find(synonyms, word, &Pair::first);
  if (known == synonyms.end()) return nullptr;
  const auto found = std::ranges::find(candidates, known->second);
  return found == candidates.end() ? nullptr : &*found;
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = synonym(word, candidates);
  if (best == nullptr) best = completion(word, candidates);
  if (best == nullptr) best = closest(word, candidates);
  return best == nullptr ? "" : fmt::format("; did you mean '{}'?", *best);
}

}  // namespace lockstep::app
