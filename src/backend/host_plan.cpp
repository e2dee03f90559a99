#include "host_plan.hpp"

#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::backend {

namespace {

/// Runs steps synchronously: nothing is recorded, and `collect` need not wait.
class HostStepRunner final : public StepRunner {
 public:
  explicit HostStepRunner(Plan& plan) : plan_(plan) {}

  core::Timeline& timeline() override { return timeline_; }
  void record(std::function<void()> body, bool, std::function<void()>) override {
    body_ = std::move(body);
  }
  void begin() override {}
  void run() override { body_(); }
  BatchResult collect() override { return plan_.result(); }

 private:
  Plan& plan_;
  core::HostTimeline timeline_;
  std::function<void()> body_;
};

}  // namespace

void Plan::keep(std::span<const std::uint8_t>, std::span<const std::uint8_t>) {
  core::fail(core::ExitStatus::usage,
             "--data-residency device is for GPUs; a CPU reads the images where they are");
}

void Plan::upload_kept(std::span<const std::int32_t>, std::span<const core::CropFlip>) {
  core::check(false, "images are kept before they are asked for");
}

void HostPlan::update(std::size_t first, std::size_t count) {
  optim::update(sgd_, state_.parameters.as<float>().subspan(first, count),
                state_.gradients.as<float>().subspan(first, count),
                state_.momentum.as<float>().subspan(first, count));
}

std::unique_ptr<StepRunner> Backend::make_step_runner(Plan& plan) const {
  return std::make_unique<HostStepRunner>(plan);
}

core::GradientArray Backend::gradients(const ModelState& state, core::DataType type) const {
  return {state.gradients.data(), state.gradients.bytes() / core::size_of(type), type};
}

}  // namespace lockstep::backend
