#include "kernel_time.hpp"

#include <algorithm>

namespace lockstep::train {

namespace {

struct Efficiency {
  Interval rate, bandwidth;
};

Efficiency efficiency_of(const KernelWork& work, const GpuModel& gpu) {
  switch (work.kind) {
    case KernelKind::convolution:
      return {
          {gpu.convolution_rate.low * work.tiles.low, gpu.convolution_rate.high * work.tiles.high},
          gpu.convolution_bandwidth};
    case KernelKind::batch_norm: return {{1, 1}, gpu.batch_norm_bandwidth};
    case KernelKind::streaming: break;
  }
  return {{1, 1}, gpu.streaming_bandwidth};
}

}  // namespace

double bound_of(const KernelWork& work, const GpuModel& gpu) {
  return std::max(work.flops / gpu.flops_per_second, work.bytes.low / gpu.bytes_per_second);
}

Interval time_of(const KernelWork& work, const GpuModel& gpu) {
  const Efficiency efficiency = efficiency_of(work, gpu);
  const auto seconds = [&](double rate, double bandwidth, double bytes, double minimum,
                           double gap) {
    const double arithmetic = work.flops / (gpu.flops_per_second * rate);
    const double memory = bytes / (gpu.bytes_per_second * bandwidth);
    return std::max({arithmetic, memory, work.kernels * minimum}) + work.kernels * gap;
  };
  return {seconds(efficiency.rate.high, efficiency.bandwidth.high, work.bytes.low,
                  gpu.kernel_minimum.low, gpu.kernel_gap.low),
          seconds(efficiency.rate.low, efficiency.bandwidth.low, work.bytes.high,
                  gpu.kernel_minimum.high, gpu.kernel_gap.high)};
}

}  // namespace lockstep::train
