// SPDX-License-Identifier: BSD-3-Clause
#include "host_transport.hpp"

#include <fmt/format.h>

#include "all_reduce/fixed_order_sum.hpp"
#include "all_reduce/gather_scatter.hpp"
#include "all_reduce/registry.hpp"
#include "all_reduce/resources.hpp"
#include "host_sweep.hpp"
#include "lockstep/core/error.hpp"
#include "reducers/host_reducer.hpp"
#include "reducers/registry.hpp"

namespace lockstep::comm {

namespace {

class HostStatisticsAllReduce final : public core::StatisticsAllReduce {
 public:
  explicit HostStatisticsAllReduce(AllReduceResources& resources)
      : replicas_(resources.ranks().size()), sum_(resources) {}

  int replicas() const override { return replicas_; }
  void sum(std::span<float> values) override { sum_.run(values); }

 private:
  int replicas_;
  FixedOrderSum sum_;
};

class HostBroadcast final : public ParameterBroadcast {
 public:
  HostBroadcast(AllReduceResources& resources, std::span<float> values)
      : broadcast_(make_root_all_reduce(resources.route(), values, RootStages::scatter)) {}

  void run() override {
    broadcast_->start();
    broadcast_->finish();
  }
  Traffic traffic() const override { return broadcast_->traffic(); }

 private:
  std::unique_ptr<AllReduce> broadcast_;
};

class HostTransport final : public GradientTransport {
 public:
  explicit HostTransport(Communicator& communicator)
      : GradientTransport(communicator),
        resources_(communicator),
        statistics_all_reduce_(resources_) {}

  core::Buffer allocate(std::size_t bytes) override { return resources_.allocate(bytes); }
  std::vector<std::string> warnings() const override { return resources_.warnings(); }
  core::StatisticsAllReduce& statistics_all_reduce() override { return statistics_all_reduce_; }
  std::unique_ptr<ParameterBroadcast> make_broadcast(const core::GradientArray& values) override {
    return std::make_unique<HostBroadcast>(
        resources_, std::span(reinterpret_cast<float*>(values.data), values.elements));
  }
  std::vector<SweepRow> sweep(const SweepOptions& options) override {
    return sweep_all_reduce(resources_, options);
  }
  std::string library_version() const override { return communicator().library_version(); }

 private:
  void check_options(const core::GradientArray& gradients,
                     const ReducerOptions& options) const override {
    if (gradients.type != core::DataType::float32) {
      core::fail(core::ExitStatus::usage,
                 fmt::format("gradients in host memory are fp32, not {}; only the communication "
                             "data type can be narrower",
                             core::name(gradients.type)));
    }
    check_communication_type(options.gradient_type);
    if (find_reducer(options.kind).make_sum == nullptr ||
        options.gradient_type == core::DataType::float32)
      return;
    core::fail(core::ExitStatus::usage,
               fmt::format("--reducer {} sends fp32 only; use --gradient-dtype fp32",
                           options.kind.name()));
  }

  std::unique_ptr<BucketReducer> make_bucket_reducer(const core::GradientArray& gradients,
                                                     const ReducerOptions& options,
                                                     const BucketPartition& buckets,
                                                     const BucketTimestamps& timestamps) override {
    const std::span values(reinterpret_cast<float*>(gradients.data), gradients.elements);
    return std::make_unique<HostReducer>(resources_, values, options, buckets, timestamps);
  }

  AllReduceResources resources_;
  HostStatisticsAllReduce statistics_all_reduce_;
};

}  // namespace

std::unique_ptr<GradientTransport> make_host_transport(Communicator& communicator) {
  return std::make_unique<HostTransport>(communicator);
}

}  // namespace lockstep::comm
