#include "step_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

namespace {
enum Slot : std::size_t { loss, correct, images, stop, save, first_rank };
}

StepSums::StepSums(comm::Communicator& communicator, bool is_independent)
    : communicator_(communicator),
      is_independent_(is_independent),
      values_(first_rank + static_cast<std::size_t>(communicator.size())) {}

StepTotals StepSums::exchange(const backend::BatchResult& result, Wishes wishes,
                              std::int64_t step) {
  std::ranges::fill(values_, 0.0);
  values_[loss] = result.loss_sum;
  values_[correct] = static_cast<double>(result.correct);
  values_[images] = static_cast<double>(result.images);
  values_[stop] = wishes.stop ? 1 : 0;
  values_[save] = wishes.save ? 1 : 0;
  values_[first_rank + static_cast<std::size_t>(communicator_.rank())] =
      std::isfinite(result.loss_sum) ? 0 : 1;
  if (!is_independent_) {
    communicator_.start_sum(values_);
    communicator_.finish_sum();
  }
  require_finite(step);
  return {.loss_sum = values_[loss],
          .correct = static_cast<std::int64_t>(values_[correct]),
          .images = static_cast<std::int64_t>(values_[images]),
          .stop = values_[stop] > 0 && !is_independent_,
          .save = values_[save] > 0};
}

void StepSums::require_finite(std::int64_t step) const {
  for (std::size_t rank = 0; first_rank + rank < values_.size(); ++rank) {
    if (values_[first_rank + rank] == 0) continue;
    const std::string message = fmt::format(
        "the loss is not finite in step {} on rank {}; lower --lr, add --warmup-epochs, or "
        "start from the last checkpoint with a lower rate",
        step, rank);
    if (is_independent_) core::fail(core::ExitStatus::diverged, message);
    throw AgreedError(core::ExitStatus::diverged, message, static_cast<int>(rank),
                      communicator_.rank());
  }
}

}  // namespace lockstep::train
