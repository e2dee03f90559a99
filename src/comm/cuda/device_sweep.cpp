// SPDX-License-Identifier: BSD-3-Clause
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

}  // namespace

std::vector<SweepRow> sweep_device(Communicator& control, const core::Buffer& memory,
                                   const SweepOptions& options, const DeviceSumKind& kind,
                                   const std::function<SweptSum(std::size_t elements)>& make_sum) {
  std::vector<SweepRow> rows;
  for (const std::size_t bytes : sweep_sizes(options)) {
    const std::size_t elements = bytes / sizeof(float);
    KnownArray array(control, memory.data(), elements, options.communication_type);
    const SweptSum sum = make_sum(elements);
    SweepRow& row = rows.emplace_back(std::string(kind.name), elements, kind.type,
                                      std::vector<double>(), std::uint64_t{0});
    sweep_sums(control, options,
               {[&](std::size_t repeat) { together(control, [&] { array.fill(repeat); }); },
                [&](std::size_t repeat, core::DataType) { return array.count_wrong(repeat); }},
               std::span(&sum, 1), std::span(&row, 1));
  }
  return rows;
}

}  // namespace lockstep::comm
