// SPDX-License-Identifier: BSD-3-Clause
#include "suggestion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <span>
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

/// Names that other programs give to options, or option values, of this program.
struct Synonyms {
  std::string_view names;  ///< separated by blanks
  std::string_view own;    ///< of this program, separated by blanks
};
constexpr std::array<Synonyms, 5> value_synonyms{{{"gpu nvidia", "cuda"},
                                                  {"host", "cpu"},
                                                  {"float32 single", "fp32"},
                                                  {"float16 half", "fp16"},
                                                  {"bfloat16", "bf16"}}};

/// Names that PyTorch, Horovod, Lightning and scripts of users give to options of this program.
constexpr std::array<Synonyms, 23> option_synonyms{
    {{"batch-size batch b bs bsz mini-batch minibatch train-batch-size per-device-train-batch-size "
      "batchsize batch-size-per-gpu micro-batch-size",
      "batch-per-rank global-batch ladder-start"},
     {"learning-rate base-lr lr-rate", "lr"},
     {"num-epochs epoch max-epochs n-epochs e", "epochs"},
     {"max-steps num-steps iterations iters max-iter num-iters num-iterations", "steps"},
     {"workers num-workers j dataloader-num-workers data-workers", "loader-threads"},
     {"data-dir data-path dataset data-root root datadir train-dir", "data"},
     {"wd decay l2", "weight-decay"},
     {"optim optimiser opt", "optimizer"},
     {"arch a net architecture model-name", "model"},
     {"random-seed manual-seed", "seed"},
     {"num-threads omp-threads cpus cores", "threads"},
     {"checkpoint save-dir ckpt ckpt-dir checkpoints checkpoint-path save-path", "checkpoint-dir"},
     {"save-every save-interval checkpoint-interval", "checkpoint-every"},
     {"pretrained weights load checkpoint-file load-from weights-file", "init-from"},
     {"resume-from resume-from-checkpoint", "resume"},
     {"out output-dir o output-file log-dir run-dir results", "output"},
     {"amp fp16 half mixed-precision dtype bf16 use-amp", "precision"},
     {"clip clip-grad max-norm max-grad-norm clip-grad-norm gradient-clip-val", "grad-clip"},
     {"scheduler lr-scheduler", "lr-schedule"},
     {"warmup warmup-steps lr-warmup-epochs", "warmup-epochs"},
     {"gradient-accumulation-steps accumulate accumulation-steps accumulate-grad-batches "
      "batches-per-allreduce",
      "micro-batches"},
     {"gpu cuda no-cuda cpu use-gpu accelerator", "device"},
     {"dist-backend backend nccl gloo", "transport"}}};
/// Options of launchers: the number of ranks is not an option of this program.
constexpr std::string_view launcher_options =
    " world-size gpus num-gpus nproc-per-node nproc np n nodes num-nodes nnodes num-proc "
    "ranks-per-node rank local-rank devices ngpus ";

bool contains_word(std::string_view words, std::string_view word) {
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

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

/// Returns "; did you mean 'CANDIDATE'?" with the candidates that `table` names for `name`.
std::string suggest_synonyms(std::span<const Synonyms> table, std::string_view name,
                             const std::vector<std::string>& candidates) {
  std::string found;
  for (const auto& [names, own] : table) {
    if (!contains_word(names, name)) continue;
    for (const std::string& candidate : candidates) {
      if (!contains_word(own, candidate)) continue;
      found += fmt::format("{}'{}'", found.empty() ? "" : " or ", candidate);
    }
  }
  return found.empty() ? "" : fmt::format("; did you mean {}?", found);
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  if (std::string known = suggest_synonyms(value_synonyms, word, candidates); !known.empty())
    return known;
  const std::string* best = completion(word, candidates);
  if (best == nullptr) best = closest(word, candidates);
  return best == nullptr ? "" : fmt::format("; did you mean '{}'?", *best);
}

std::string option_synonym(std::string_view name, const std::vector<std::string>& candidates) {
  return suggest_synonyms(option_synonyms, name, candidates);
}

std::string option_suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  std::string plain(name);
  std::ranges::transform(plain, plain.begin(), [](unsigned char letter) {
    return letter == '_' ? '-' : static_cast<char>(std::tolower(letter));
  });
  if (contains_word(launcher_options, plain)) {
    return "; the launcher starts the ranks, each with one device: mpirun -n N lockstep ..., or "
           "srun -n N lockstep ...";
  }
  if (std::string found = option_synonym(plain, candidates); !found.empty()) return found;
  return suggestion(plain, candidates);
}

}  // namespace lockstep::app
