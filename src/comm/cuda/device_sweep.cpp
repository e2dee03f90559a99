// SPDX-License-Identifier: BSD-3-Clause
#include "device_sweep.hpp"

#include <cuda_runtime_api.h>

#include "../elements.hpp"
#include "../known_values.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::comm {

std::vector<SweepRow> sweep_device(Communicator& control, const core::Buffer& memory,
                                   const SweepOptions& options, const SweepRow& empty,
                                   const std::function<SweptSum(std::size_t elements)>& make_sum) {
  const KnownValues known(control.rank(), control.size());
  const core::DataType type = options.communication_type;
  std::vector<SweepRow> rows;
  for (const std::size_t size : sweep_sizes(options)) {
    std::vector<float> values(size / sizeof(float));
    std::vector<std::byte> bytes(values.size() * core::size_of(type));
    const auto fill = [&](std::size_t repeat) {
      together(control, [&] {
        known.fill(values, repeat);
        store_floats(values, type, bytes.data());
        core::copy_to_device(memory.data(), bytes, "filling an array");
      });
    };
    const auto count_wrong = [&](std::size_t repeat, core::DataType) {
      core::check_cuda(
          cudaMemcpy(bytes.data(), memory.data(), bytes.size(), cudaMemcpyDeviceToHost),
          "reading sums");
      load_floats(bytes.data(), type, values);
      return known.count_wrong(values, repeat, type);
    };
    const SweptSum sum = make_sum(values.size());
    SweepRow& row = rows.emplace_back(empty);
    row.elements = values.size();
    sweep_sums(control, options, {fill, count_wrong}, std::span(&sum, 1), std::span(&row, 1));
  }
  return rows;
}

}  // namespace lockstep::comm
