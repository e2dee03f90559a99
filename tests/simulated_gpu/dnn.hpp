// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engines.hpp"
#include "runtime.hpp"

// What the files of the simulated cuDNN share. It implements the functions of cuDNN's backend API
// that cudnn-frontend calls for the graphs of this program.

namespace lockstep::simulated_gpu::dnn {

using AttributeName = cudnnBackendAttributeName_t;
struct Descriptor;

/// Values of one type: bytes, or descriptors.
struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::vector<std::byte> bytes = {};
  std::vector<std::shared_ptr<const Descriptor>> descriptors = {};

  std::size_t count() const;
};

/// Bytes of a value of the type.
std::size_t size_of(cudnnBackendAttributeType_t type);

/// The object behind a cudnnBackendDescriptor_t. Attributes that cuDNN derives from others, such as
/// the size of the workspace, are added when the descriptor is finalized.
struct Descriptor {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  std::map<AttributeName, Attribute> attributes = {};
  bool is_finalized = false;
  mutable Module code = {};  ///< of an execution plan

  const Attribute* find(AttributeName name) const;
  const Descriptor& child(AttributeName name) const;
  std::shared_ptr<const Descriptor> shared_child(AttributeName name) const;

  /// The values of an attribute; none if it is not set.
  template <class T>
  std::vector<T> values(AttributeName name) const {
    const Attribute* const attribute = find(name);
    if (attribute == nullptr) return {};
    std::vector<T> result(attribute->bytes.size() / sizeof(T));
    std::memcpy(result.data(), attribute->bytes.data(), result.size() * sizeof(T));
    return result;
  }
  /// The only value of an attribute, which must be set.
  template <class T>
  T value(AttributeName name) const {
    T result{};
    std::memcpy(&result, find(name)->bytes.data(), sizeof result);
    return result;
  }
  template <class T>
  T value_or(AttributeName name, T other) const {
    return find(name) == nullptr ? other : value<T>(name);
  }

  template <class T>
  void set(AttributeName name, cudnnBackendAttributeType_t value_type, const std::vector<T>& from) {
    Attribute attribute{.type = value_type};
    attribute.bytes.resize(from.size() * sizeof(T));
    std::memcpy(attribute.bytes.data(), from.data(), attribute.bytes.size());
    attributes[name] = std::move(attribute);
  }
  void set(AttributeName name, std::vector<std::shared_ptr<const Descriptor>> from) {
    attributes[name] = {.type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .descriptors = std::move(from)};
  }
};

/// Returns the object behind the handle.
std::shared_ptr<const Descriptor> shared(cudnnBackendDescriptor_t handle);

/// A tensor descriptor.
struct Tensor {
  std::int64_t uid = 0;
  std::vector<std::int64_t> sizes, strides;  ///< n, c, h, w
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::int64_t alignment = 0;
  bool is_virtual = false, is_by_value = false;

  std::int64_t elements() const;
  std::size_t bytes() const;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};
Tensor read_tensor(const Descriptor& descriptor);

/// A tensor of an operation, and its role.
struct Operand {
  Tensor tensor;
  bool is_output;
};
std::vector<Operand> operands(const Descriptor& operation);

/// Names of the attributes of an operation that the three kinds of convolutions have.
struct ConvolutionNames {
  AttributeName x, w, y, window, alpha, beta;
};
ConvolutionNames convolution_names(cudnnBackendDescriptorType_t operation);

/// The operations of an operation graph.
const std::vector<std::shared_ptr<const Descriptor>>& operations_of(const Descriptor& graph);

// The following checks report violations and then return false.

/// Checks that descriptors of a type have the attribute.
bool is_known(cudnnBackendDescriptorType_t descriptor, AttributeName name,
              cudnnBackendAttributeType_t type);
/// Checks that all required attributes are set.
bool is_complete(const Descriptor& descriptor);
/// Checks the values of all attributes.
bool is_valid(const Descriptor& descriptor);

/// Completes descriptors of heuristics, engines, their configurations, execution plans and device
/// properties.
cudnnStatus_t complete(Descriptor& descriptor);
/// Adds the description of the simulated GPU, with some fields of a real one, to device properties.
void describe_device(Descriptor& properties);
/// Adds the serialised form, which takes time, to an execution plan.
void serialise(Descriptor& plan);
/// The engine of an execution plan.
Engine engine_of(const Descriptor& plan);
/// Counts the execution of an engine.
void count_run(const Descriptor& plan);
/// The operation graph of an execution plan.
std::shared_ptr<const Descriptor> graph_of(const Descriptor& plan);

/// Elements of tensors by uid, in the order NHWC or KRSC.
using Values = std::map<std::int64_t, std::vector<float>>;
/// Executes the operation on the host.
void execute(const Descriptor& operation, Values& values);
/// Elements in memory to values, and the reverse.
std::vector<float> load(const Tensor& tensor, const void* data);
void store(const Tensor& tensor, const std::vector<float>& values, void* data);
/// Rounds values to the data type of the tensor.
void round(const Tensor& tensor, std::vector<float>& values);

/// Sets the text of cudnnGetLastErrorString and returns `status`.
cudnnStatus_t fail(cudnnStatus_t status, const std::string& reason);

inline constexpr std::string_view attribute_rule = "attributes of descriptors";
inline constexpr std::string_view pack_rule = "variant pack of cuDNN";
/// Reports a violation and returns a status for it.
cudnnStatus_t broken(std::string_view rule, const std::string& detail);

}  // namespace lockstep::simulated_gpu::dnn
