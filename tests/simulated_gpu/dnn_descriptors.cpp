// SPDX-License-Identifier: BSD-3-Clause
// Replaces the functions of cuDNN for handles, errors and descriptors.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "dnn.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace lockstep::simulated_gpu::dnn {

namespace {

thread_local std::string last_error;

/// What a cudnnBackendDescriptor_t points to.
using Handle = std::shared_ptr<Descriptor>;
Descriptor& target(cudnnBackendDescriptor_t handle) { return **static_cast<Handle*>(handle); }

}  // namespace

cudnnStatus_t fail(cudnnStatus_t status, const std::string& reason) {
  last_error = fmt::format("{}; Reason: {}\n", cudnnGetErrorString(status), reason);
  return status;
}

cudnnStatus_t broken(std::string_view rule, const std::string& detail) {
  violation(rule, detail);
  return fail(CUDNN_STATUS_BAD_PARAM, detail);
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void*);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_CHAR: return 1;
    default: return 4;  // float, int32 and enumerations
  }
}

std::size_t Attribute::count() const {
  return type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? descriptors.size() : bytes.size() / size_of(type);
}

std::shared_ptr<const Descriptor> shared(cudnnBackendDescriptor_t handle) {
  return *static_cast<Handle*>(handle);
}

const Attribute* Descriptor::find(AttributeName name) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? nullptr : &found->second;
}
std::shared_ptr<const Descriptor> Descriptor::shared_child(AttributeName name) const {
  return find(name)->descriptors.front();
}
const Descriptor& Descriptor::child(AttributeName name) const { return *shared_child(name); }

}  // namespace lockstep::simulated_gpu::dnn

namespace {

std::atomic<int> handles = 0;  // several threads create them
std::size_t dnn_version = CUDNN_VERSION;

}  // namespace

int lockstep::simulated_gpu::handles_created() { return handles; }
void lockstep::simulated_gpu::set_dnn_version(std::size_t version) {
  dnn_version = version == 0 ? CUDNN_VERSION : version;
}

using namespace lockstep::simulated_gpu;
using namespace lockstep::simulated_gpu::dnn;

extern "C" {

std::size_t cudnnGetVersion() { return dnn_version; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
      return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    default: return "another status of cuDNN";
  }
}
void cudnnGetLastErrorString(char* message, std::size_t size) {
  const std::size_t length = std::min(size - 1, last_error.size());
  std::copy_n(last_error.begin(), length, message);
  message[length] = '\0';
  last_error.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  require_no_capture("cudnnCreate");
  if (allocation_fails()) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  ++handles;
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Handle(std::make_shared<Descriptor>(Descriptor{.type = type}));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Handle*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, AttributeName name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* elements) {
  Descriptor& to = target(descriptor);
  if (to.is_finalized) return broken(attribute_rule, "a finalized descriptor is changed");
  if (!is_known(to.type, name, type)) return fail(CUDNN_STATUS_BAD_PARAM, "unknown attribute");
  if (count < 0 || (count > 0 && elements == nullptr))
    return broken(attribute_rule, "an attribute has no values");
  Attribute attribute{.type = type};
  const auto values = static_cast<std::size_t>(count);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::size_t i = 0; i < values; ++i) {
      const auto child = static_cast<const cudnnBackendDescriptor_t*>(elements)[i];
      if (child == nullptr || !target(child).is_finalized)
        return broken(attribute_rule, "an attribute is a descriptor that is not finalized");
      attribute.descriptors.push_back(*static_cast<Handle*>(child));
    }
  } else {
    const auto* const bytes = static_cast<const std::byte*>(elements);
    attribute.bytes.assign(bytes, bytes + values * size_of(type));
  }
  to.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, AttributeName name,
                                       cudnnBackendAttributeType_t type, std::int64_t requested,
                                       std::int64_t* count, void* elements) {
  Descriptor& from = target(descriptor);
  if (!from.is_finalized)
    return broken(attribute_rule, "an attribute of an unfinished descriptor is read");
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION && from.find(name) == nullptr)
    serialise(from);
  const Attribute* const attribute = from.find(name);
  if (attribute == nullptr || attribute->type != type)
    return broken(attribute_rule, fmt::format("attribute {} is not set", static_cast<int>(name)));
  if (count != nullptr) *count = static_cast<std::int64_t>(attribute->count());
  if (elements == nullptr) return CUDNN_STATUS_SUCCESS;
  const std::size_t copied = std::min(static_cast<std::size_t>(requested), attribute->count());
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::size_t i = 0; i < copied; ++i)
      *static_cast<Handle*>(static_cast<cudnnBackendDescriptor_t*>(elements)[i]) =
          std::const_pointer_cast<Descriptor>(attribute->descriptors[i]);
  } else {
    std::memcpy(elements, attribute->bytes.data(), copied * size_of(type));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& one = target(descriptor);
  if (one.is_finalized) return broken(attribute_rule, "a descriptor is finalized twice");
  if (!is_valid(one)) return fail(CUDNN_STATUS_BAD_PARAM, "an attribute has a wrong value");
  const cudnnStatus_t status = complete(one);
  one.is_finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

}  // extern "C"
