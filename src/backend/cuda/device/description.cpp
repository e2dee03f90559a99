// SPDX-License-Identifier: BSD-3-Clause
#include "description.hpp"

#include <cudnn.h>

#include <cstdint>

#include "device.hpp"

namespace lockstep::backend::cuda {
namespace {

struct DescriptorTraits {
  using type = cudnnBackendDescriptor_t;
  static type null() noexcept { return nullptr; }
  static void close(type descriptor) noexcept { cudnnBackendDestroyDescriptor(descriptor); }
};
using Descriptor = core::Handle<DescriptorTraits>;

Descriptor make_description(std::int32_t index) {
  constexpr const char* call = "reading the description of the GPU";
  cudnnBackendDescriptor_t created = nullptr;
  check_cudnn(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &created), call);
  Descriptor descriptor(created);
  check_cudnn(cudnnBackendSetAttribute(descriptor.get(), CUDNN_ATTR_DEVICEPROP_DEVICE_ID,
                                       CUDNN_TYPE_INT32, 1, &index),
              call);
  check_cudnn(cudnnBackendFinalize(descriptor.get()), call);
  return descriptor;
}

}  // namespace

std::string read_description(int index) {
  const Descriptor descriptor = make_description(index);
  std::int64_t size = 0;
  const auto read = [&](std::int64_t requested, void* text) {
    check_cudnn(
        cudnnBackendGetAttribute(descriptor.get(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, requested, &size, text),
        "reading the description of the GPU");
  };
  read(0, nullptr);
  std::string text(static_cast<std::size_t>(size), '\0');
  read(size, text.data());
  return text.substr(0, text.find('\0'));
}

}  // namespace lockstep::backend::cuda
