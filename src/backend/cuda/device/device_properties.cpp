// SPDX-License-Identifier: BSD-3-Clause
#include "device_properties.hpp"

#include <cstdint>
#include <vector>

#include "frontend.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::shared_ptr<const cudnn_frontend::DeviceProperties> read_properties(std::string_view json) {
  auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  const std::vector<std::uint8_t> bytes(json.begin(), json.end());
  if (auto status = properties->deserialize(bytes); status.is_bad())
    core::fail(core::ExitStatus::usage,
               "cuDNN cannot read the description of the GPU: " + first_line(status.get_message()) +
                   "; write it again with this version of cuDNN");
  return properties;
}

std::string write_properties(int device) {
  cudnn_frontend::DeviceProperties properties;
  std::vector<std::uint8_t> bytes;
  auto status = properties.set_device_id(device).build();
  if (status.is_good()) status = properties.serialize(bytes);
  if (status.is_bad())
    core::fail(core::ExitStatus::internal,
               "cuDNN cannot describe the GPU: " + first_line(status.get_message()));
  // The size that cuDNN returns includes the terminating null character.
  while (!bytes.empty() && bytes.back() == 0) bytes.pop_back();
  return {bytes.begin(), bytes.end()};
}

}  // namespace lockstep::backend::cuda
