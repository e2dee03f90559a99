#include "host_plan.hpp"

#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::backend {

namespace {

/// Executes steps synchronously: nothing is captured, and `collect` need not wait.
class HostStepExecutor final : public StepExecutor {
 public:
  HostStepExecutor(const Plan& plan, std::unique_ptr<StepWork> work)
      : StepExecutor(std::move(work)), plan_(plan) {}

  void begin() override {}
  void run() override { work().queue(); }
  BatchResult collect() override { return plan_.result(); }

 private:
  const Plan& plan_;
};

}  // namespace

void Plan::load_dataset(std::span<const std::int32_t>, const ImageReader&) {
  core::fail(core::ExitStatus::usage,
             "--data-residency device is for GPUs; a CPU reads the images where they are");
}

void Plan::upload_samples(std::span<const std::int32_t>, std::span<const core::CropFlip>) {
  core::check(false, "a dataset is loaded before its samples are uploaded");
}

void HostPlan::update(std::size_t first, std::size_t count) {
  optim::update(sgd_, state_.parameters.as<float>().subspan(first, count),
                state_.gradients.as<float>().subspan(first, count),
                state_.momentum.as<float>().subspan(first, count));
}

std::unique_ptr<StepExecutor> HostPlan::make_step_executor(std::unique_ptr<StepWork> work) {
  return std::make_unique<HostStepExecutor>(*this, std::move(work));
}

core::GradientArray Backend::gradients(const ModelState& state, core::DataType type) const {
  if (state.device != nullptr) return state.device->gradients(type);
  return {state.gradients.data(), state.gradients.bytes() / core::size_of(type), type};
}

}  // namespace lockstep::backend
