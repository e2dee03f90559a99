#include <cuda_runtime_api.h>

#include <string>

#include "../elements.hpp"
#include "../sweep_parts.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::comm {

namespace {

/// Test values in an array in device memory, written and checked through host memory.
class KnownArray {
 public:
  KnownArray(const Communicator& control, std::byte* device, std::size_t elements,
             core::DataType type)
      : known_(control.rank(), control.size()),
        device_(device),
        type_(type),
        values_(elements),
        bytes_(elements * core::size_of(type)) {}

  void fill(std::size_t repeat) {
    known_.fill(values_, repeat);
    store_floats(values_, type_, bytes_.data());
    core::copy_to_device(device_, bytes_, "filling an array");
  }

  std::uint64_t count_wrong(std::size_t repeat) {
    core::check_cuda(cudaMemcpy(bytes_.data(), device_, bytes_.size(), cudaMemcpyDeviceToHost),
                     "reading sums");
    load_floats(bytes_.data(), type_, values_);
    return known_.count_wrong(values_, repeat, type_);
  }

 private:
  KnownValues known_;
  std::byte* device_;
  core::DataType type_;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

SweepRow sweep_one_size(Communicator& control, const core::Buffer& memory, std::size_t elements,
                        const SweepOptions& options, const DeviceSumKind& kind,
                        const DeviceSum& sum) {
  SweepRow row{std::string(kind.name), elements, kind.type, {}, 0};
  KnownArray array(control, memory.data(), elements, options.communication_type);
  for (int repeat = -options.warmup; repeat < options.repeats; ++repeat) {
    const auto shift = static_cast<std::size_t>(repeat + options.warmup);
    together(control, [&] { array.fill(shift); });
    const double seconds = seconds_of(control, sum);
    row.wrong += array.count_wrong(shift);
    if (repeat >= 0) row.seconds.push_back(seconds);
    core::report_progress(options.progress);
  }
  agree_on(control, row);
  return row;
}

}  // namespace

std::vector<SweepRow> sweep_device(Communicator& control, const core::Buffer& memory,
                                   const SweepOptions& options, const DeviceSumKind& kind,
                                   const std::function<DeviceSum(std::size_t elements)>& make_sum) {
  std::vector<SweepRow> rows;
  for (const std::size_t bytes : sweep_sizes(options)) {
    const std::size_t elements = bytes / sizeof(float);
    rows.push_back(sweep_one_size(control, memory, elements, options, kind, make_sum(elements)));
  }
  return rows;
}

}  // namespace lockstep::comm
