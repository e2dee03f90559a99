#include "host_transport.hpp"

#include <fmt/format.h>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

class HostStatisticsAllReduce final : public core::StatisticsAllReduce {
 public:
  explicit HostStatisticsAllReduce(Communicator& communicator) : communicator_(communicator) {}

  int replicas() const override { return communicator_.size(); }
  void sum(std::span<float> values) override { communicator_.sum(values); }

 private:
  Communicator& communicator_;
};

class HostTransport final : public GradientTransport {
 public:
  explicit HostTransport(Communicator& communicator)
      : communicator_(communicator), statistics_all_reduce_(communicator) {}

  core::Buffer allocate(std::size_t bytes) override { return communicator_.allocate(bytes); }

  std::unique_ptr<GradientReducer> make_reducer(const core::GradientArray& gradients,
                                                const ReducerOptions& options,
                                                core::Timeline& timeline) override {
    if (gradients.type != core::DataType::float32) {
      fail_together(
          communicator_, core::ExitStatus::usage,
          fmt::format("gradients in the host's memory are fp32, not {}; only what travels "
                      "can be narrower",
                      core::name(gradients.type)));
    }
    return make_gradient_reducer(communicator_,
                                 {reinterpret_cast<float*>(gradients.data), gradients.elements},
                                 options, &timeline);
  }

  core::StatisticsAllReduce& statistics_all_reduce() override { return statistics_all_reduce_; }

  std::vector<SweepRow> sweep(const SweepOptions& options) override {
    return sweep_all_reduce(communicator_, options);
  }

  std::string library_version() const override { return communicator_.library_version(); }

 private:
  Communicator& communicator_;
  HostStatisticsAllReduce statistics_all_reduce_;
};

}  // namespace

std::unique_ptr<GradientTransport> make_host_transport(Communicator& communicator) {
  return std::make_unique<HostTransport>(communicator);
}

}  // namespace lockstep::comm
