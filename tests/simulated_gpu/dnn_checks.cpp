// SPDX-License-Identifier: BSD-3-Clause
// Checks of the values of attributes when a descriptor of cuDNN is finalized.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dnn.hpp"

namespace lockstep::simulated_gpu::dnn {

namespace {

/// Reports a violation of `rule` and returns false unless `holds`.
bool require(bool holds, std::string_view rule, const std::string& detail) {
  if (!holds) violation(rule, detail);
  return holds;
}

constexpr std::string_view tensor_rule = "tensor of cuDNN", operation_rule = "operation of cuDNN",
                           graph_rule = "operation graph of cuDNN";

/// Strides of a tensor that is stored densely in the order NHWC. The stride of a dimension of size
/// 1 is not used.
bool is_channels_last(const Tensor& tensor) {
  const auto& sizes = tensor.sizes;
  const std::array<std::int64_t, 4> dense{sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3],
                                          sizes[1]};
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (sizes[i] > 1 && tensor.strides[i] != dense[i]) return false;
  return true;
}

bool is_tensor_valid(const Tensor& tensor) {
  const auto check = [&](bool holds, const char* what) {
    return require(holds, tensor_rule, fmt::format("{} of tensor {}", what, tensor.uid));
  };
  const auto is_positive = [](std::int64_t size) { return size > 0; };
  const bool is_known = tensor.type == CUDNN_DATA_FLOAT || tensor.type == CUDNN_DATA_HALF ||
                        tensor.type == CUDNN_DATA_BFLOAT16 ||
                        (tensor.type == CUDNN_DATA_BOOLEAN && tensor.is_virtual);
  return check(tensor.sizes.size() == 4 && tensor.strides.size() == 4, "number of dimensions") &&
         check(std::ranges::all_of(tensor.sizes, is_positive), "sizes") &&
         check(std::ranges::all_of(tensor.strides, is_positive), "strides") &&
         check(is_channels_last(tensor), "strides (not NHWC)") && check(is_known, "data type") &&
         check(tensor.alignment > 0 && 16 % tensor.alignment == 0, "alignment") &&
         check(!(tensor.is_virtual && tensor.is_by_value), "virtual and by value, storage") &&
         check(!tensor.is_by_value || tensor.elements() == 1, "by value, number of elements");
}

bool is_window_valid(const Descriptor& window) {
  const auto all = [&](AttributeName name, auto&& holds) {
    const auto values = window.values<std::int64_t>(name);
    return values.size() == 2 && std::ranges::all_of(values, holds);
  };
  const bool holds =
      window.value<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
      window.value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
      window.value<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) ==
          CUDNN_CROSS_CORRELATION &&
      all(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, [](auto value) { return value >= 0; }) &&
      all(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, [](auto value) { return value >= 0; }) &&
      all(CUDNN_ATTR_CONVOLUTION_DILATIONS, [](auto value) { return value == 1; }) &&
      all(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, [](auto value) { return value > 0; });
  return require(holds, operation_rule, "type, mode, padding or stride of a convolution");
}

/// The tensors of an operation by attribute.
class Shapes {
 public:
  explicit Shapes(const Descriptor& operation) : operation_(operation) {}

  bool has(AttributeName name) const { return operation_.find(name) != nullptr; }
  Tensor tensor(AttributeName name) const { return read_tensor(operation_.child(name)); }
  bool same(AttributeName a, AttributeName b) const { return tensor(a).sizes == tensor(b).sizes; }
  /// A value for every channel of `map`, in float32.
  bool is_vector(AttributeName vector, AttributeName map) const {
    const std::vector<std::int64_t> sizes{1, tensor(map).sizes[1], 1, 1};
    return tensor(vector).sizes == sizes && tensor(vector).type == CUDNN_DATA_FLOAT;
  }
  bool is_scalar(AttributeName name) const { return tensor(name).is_by_value; }

 private:
  const Descriptor& operation_;
};

bool is_convolution_valid(const Descriptor& operation) {
  const auto names = convolution_names(operation.type);
  const Shapes shapes(operation);
  const auto x = shapes.tensor(names.x).sizes, w = shapes.tensor(names.w).sizes,
             y = shapes.tensor(names.y).sizes;
  const Descriptor& window = operation.child(names.window);
  const auto before = window.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
             after = window.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
             stride = window.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  bool holds = y[0] == x[0] && y[1] == w[0] && x[1] == w[1];
  for (std::size_t i = 0; i < 2; ++i)
    holds = holds && y[i + 2] == (x[i + 2] + before[i] + after[i] - w[i + 2]) / stride[i] + 1;
  return require(holds, operation_rule, "sizes of a convolution") &&
         require(
             operation.value<float>(names.alpha) == 1 && operation.value<float>(names.beta) == 0,
             operation_rule, "factors of a convolution");
}

bool is_pointwise_valid(const Descriptor& operation) {
  const Shapes shapes(operation);
  const Descriptor& pointwise = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = pointwise.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const bool is_backward = mode == CUDNN_POINTWISE_RELU_BWD,
             is_unary = mode == CUDNN_POINTWISE_RELU_FWD;
  const bool is_known = is_backward || is_unary || mode == CUDNN_POINTWISE_ADD ||
                        mode == CUDNN_POINTWISE_MUL || mode == CUDNN_POINTWISE_CMP_GT;
  constexpr auto x = CUDNN_ATTR_OPERATION_POINTWISE_XDESC, b = CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                 y = CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
                 dx = CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,
                 dy = CUDNN_ATTR_OPERATION_POINTWISE_DYDESC;
  const bool has_operands = is_backward ? shapes.has(dx) && shapes.has(dy) && !shapes.has(y)
                                        : shapes.has(y) && shapes.has(b) != is_unary;
  if (!require(is_known && pointwise.value<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC) ==
                               CUDNN_DATA_FLOAT,
               operation_rule, "mode or precision of a pointwise operation") ||
      !require(has_operands, operation_rule, "operands of a pointwise operation"))
    return false;
  const auto is_broadcast = [&](const Tensor& from, const Tensor& to) {
    return from.sizes == to.sizes || from.elements() == 1 ||
           from.sizes == std::vector<std::int64_t>{1, to.sizes[1], 1, 1};
  };
  const bool fits =
      is_backward
          ? shapes.same(x, dx) && shapes.same(dy, dx)
          : shapes.same(x, y) && (is_unary || is_broadcast(shapes.tensor(b), shapes.tensor(y)));
  const bool gives_mask = !is_backward && shapes.tensor(y).type == CUDNN_DATA_BOOLEAN;
  return require(fits, operation_rule, "sizes of a pointwise operation") &&
         require(gives_mask == (mode == CUDNN_POINTWISE_CMP_GT), operation_rule,
                 "data type of a comparison");
}

bool is_norm_forward_valid(const Descriptor& operation) {
  const Shapes shapes(operation);
  constexpr auto x = CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, y = CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
                 epsilon = CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
                 factor = CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC;
  bool holds = shapes.same(x, y);
  for (const auto name :
       {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC})
    holds = holds && shapes.is_vector(name, x);
  const bool is_training = operation.value<cudnnBackendNormFwdPhase_t>(
                               CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == CUDNN_NORM_FWD_TRAINING;
  const bool is_batch_norm = operation.value<cudnnBackendNormMode_t>(
                                 CUDNN_ATTR_OPERATION_NORM_FWD_MODE) == CUDNN_BATCH_NORM;
  bool fits_phase =
      is_batch_norm && shapes.has(epsilon) == is_training && shapes.has(factor) == is_training;
  for (const auto name : {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
                          CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
                          CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
                          CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC}) {
    fits_phase = fits_phase && shapes.has(name) == is_training;
    holds = holds && (!shapes.has(name) || shapes.is_vector(name, x));
  }
  if (is_training && fits_phase)
    holds = holds && shapes.is_scalar(epsilon) && shapes.is_scalar(factor);
  return require(fits_phase, operation_rule, "operands of the phase of a batch norm") &&
         require(holds, operation_rule, "sizes or types of a batch norm");
}

bool is_norm_backward_valid(const Descriptor& operation) {
  const Shapes shapes(operation);
  constexpr auto x = CUDNN_ATTR_OPERATION_NORM_BWD_XDESC;
  bool holds = operation.value<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_BWD_MODE) ==
                   CUDNN_BATCH_NORM &&
               shapes.same(x, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC) &&
               shapes.same(x, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC);
  for (const auto name :
       {CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC})
    holds = holds && shapes.is_vector(name, x);
  return require(holds, operation_rule, "sizes or types of the gradient of a batch norm");
}

bool are_sums_valid(const Descriptor& operation) {
  const Shapes shapes(operation);
  if (operation.type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
    return require(shapes.is_vector(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
                                    CUDNN_ATTR_OPERATION_GENSTATS_XDESC) &&
                       shapes.is_vector(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC,
                                        CUDNN_ATTR_OPERATION_GENSTATS_XDESC),
                   operation_rule, "sizes or types of sums");
  const Descriptor& reduction = operation.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  const bool adds =
      reduction.value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) ==
          CUDNN_REDUCE_TENSOR_ADD &&
      reduction.value<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE) == CUDNN_DATA_FLOAT;
  return require(adds && shapes.is_vector(CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
                                          CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
                 operation_rule, "sizes, types or operator of a reduction");
}

/// Tensors with equal uids are equal, every operand is an input or was computed, and nothing is
/// computed twice or in vain.
bool is_graph_valid(const Descriptor& graph) {
  const auto check = [](bool holds, const char* what, const Tensor& tensor) {
    return require(holds, graph_rule, fmt::format("tensor {} {}", tensor.uid, what));
  };
  std::map<std::int64_t, Tensor> known;
  std::set<std::int64_t> produced, read;
  bool holds = true;
  for (const auto& operation : operations_of(graph)) {
    const auto all = operands(*operation);
    for (const auto& [tensor, is_output] : all) {
      const auto [found, is_new] = known.emplace(tensor.uid, tensor);
      holds = check(is_new || found->second == tensor, "has two descriptions", tensor) && holds;
      if (is_output) continue;
      read.insert(tensor.uid);
      holds = check(!tensor.is_virtual || produced.contains(tensor.uid),
                    "is virtual and read before it is computed", tensor) &&
              holds;
    }
    for (const auto& [tensor, is_output] : all) {
      if (!is_output) continue;
      holds = check(!tensor.is_by_value && !read.contains(tensor.uid) &&
                        produced.insert(tensor.uid).second,
                    "is computed, but an input or computed before", tensor) &&
              holds;
    }
  }
  for (const auto& [uid, tensor] : known)
    holds = check(!tensor.is_virtual || read.contains(uid), "is virtual and never read", tensor) &&
            holds;
  return holds;
}

bool is_pack_valid(const Descriptor& pack) {
  const auto uids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  return require(std::set<std::int64_t>(uids.begin(), uids.end()).size() == uids.size() &&
                     pack.find(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->count() == uids.size(),
                 pack_rule, "tensors are not bound once");
}

}  // namespace

bool is_valid(const Descriptor& descriptor) {
  if (!is_complete(descriptor)) return false;
  switch (descriptor.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return is_tensor_valid(read_tensor(descriptor));
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return is_window_valid(descriptor);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return is_convolution_valid(descriptor);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return is_pointwise_valid(descriptor);
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return are_sums_valid(descriptor);
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: return is_norm_forward_valid(descriptor);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return is_norm_backward_valid(descriptor);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return is_graph_valid(descriptor);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return is_pack_valid(descriptor);
    default: return true;
  }
}

}  // namespace lockstep::simulated_gpu::dnn
