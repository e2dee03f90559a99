// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"
#include "pipeline_schedule.hpp"

namespace lockstep::train {

/// The plan of a stage, see `make_plan`. It divides the batch into micro-batches, exchanges their
/// activations and gradients with the adjacent stages, and sums the gradients of the micro-batches.
/// A step is collective over the stages of a replica: `forward` computes the passes before the
/// first backward pass, `backward` the rest of the schedule.
///
/// In inference, a batch is one micro-batch, and the stages compute successive batches at the same
/// time.
class PipelinePlan final : public backend::Plan {
 public:
  /// Arguments must outlive the plan.
  PipelinePlan(const Pipeline& pipeline, const backend::Backend& backend,
               backend::ModelState& state, const backend::PlanOptions& options, WarmUp when);

  /// Only refers to the batch; it must not change before the end of `backward`.
  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override;
  void forward() override;
  /// Returns the sum over the micro-batches on the last stage, zeros on the others.
  backend::BatchResult result() const override { return result_; }
  std::span<const float> logits() const override { return slots_.front().plan->logits(); }
  void backward(core::GradientListener& listener) override;
  void set_coefficients(const optim::Coefficients& coefficients) override;
  void update(std::size_t first, std::size_t count) override {
    slots_.front().plan->update(first, count);
  }
  void parameters_changed() override { slots_.front().plan->parameters_changed(); }
  core::Timeline& timeline() override { return slots_.front().plan->timeline(); }
  std::unique_ptr<backend::StepExecutor> make_step_executor(
      std::unique_ptr<backend::StepWork> work) override;
  backend::MemoryUse memory() const override;
  std::vector<backend::OperationChoice> choices() const override {
    return slots_.front().plan->choices();
  }

  /// Returns the durations of all passes since the last call of `reset_seconds`.
  const PipelineSeconds& seconds() const { return seconds_; }
  void reset_seconds() { seconds_ = {}; }

 private:
  /// The memory of a micro-batch in flight: activations, and messages to the adjacent stages.
  struct Slot {
    std::unique_ptr<backend::Plan> plan;
    backend::StagePasses* passes = nullptr;  ///< of the plan
    core::Buffer output, gradient;  ///< boundary output, and gradient of the boundary input
    std::unique_ptr<comm::RepeatedMessage> send_output, send_gradient;
  };

  Slot& slot_of(std::int64_t micro_batch) {
    return slots_[static_cast<std::size_t>(micro_batch) % slots_.size()];
  }
  void warm_up(backend::ModelState& state);
  void forward_pass(std::int64_t micro_batch);
  void backward_pass(std::int64_t micro_batch, core::GradientListener& listener);
  /// Computes the gradients of a micro-batch by `plan` and adds them to those of the previous ones.
  /// `listener` is notified during the last micro-batch, as soon as sums are final.
  void accumulate(backend::Plan& plan, std::int64_t micro_batch, core::GradientListener& listener);
  void finish_sends();

  const Pipeline& pipeline_;
  std::int64_t micro_batches_;
  std::vector<PipelineAction> actions_;
  std::size_t first_backward_;            ///< index of the first backward pass in `actions_`
  core::Buffer input_, output_gradient_;  ///< as received
  std::unique_ptr<comm::RepeatedMessage> receive_input_, receive_gradient_;
  std::vector<Slot> slots_;
  /// Sums of the gradients over the micro-batches before the last one; null if there is one.
  std::unique_ptr<backend::GradientSums> sums_;
  const backend::Backend& backend_;
  backend::PlanOptions options_;  ///< of the whole batch
  std::span<const std::uint8_t> images_;
  std::span<const std::int32_t> labels_;
  backend::BatchResult result_;
  PipelineSeconds seconds_;
};

}  // namespace lockstep::train
