// SPDX-License-Identifier: BSD-3-Clause
// The attributes of cuDNN's descriptors that this program uses.

#include <fmt/format.h>

#include "dnn.hpp"

namespace lockstep::simulated_gpu::dnn {

namespace {

enum class Kind { required, optional, input, output, optional_input, optional_output };

struct Rule {
  AttributeName name;
  cudnnBackendAttributeType_t type;
  Kind kind = Kind::required;

  bool is_required() const {
    return kind == Kind::required || kind == Kind::input || kind == Kind::output;
  }
  bool is_tensor() const { return kind != Kind::required && kind != Kind::optional; }
  bool is_output() const { return kind == Kind::output || kind == Kind::optional_output; }
};

constexpr auto child = CUDNN_TYPE_BACKEND_DESCRIPTOR;
Rule input(AttributeName name) { return {name, child, Kind::input}; }
Rule output(AttributeName name) { return {name, child, Kind::output}; }
Rule optional_input(AttributeName name) { return {name, child, Kind::optional_input}; }
Rule optional_output(AttributeName name) { return {name, child, Kind::optional_output}; }

std::vector<Rule> convolution_rules(cudnnBackendDescriptorType_t type) {
  const auto names = convolution_names(type);
  const bool gives_x = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const bool gives_w = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  return {{names.x, child, gives_x ? Kind::output : Kind::input},
          {names.w, child, gives_w ? Kind::output : Kind::input},
          {names.y, child, gives_x || gives_w ? Kind::input : Kind::output},
          {names.window, child},
          {names.alpha, CUDNN_TYPE_FLOAT},
          {names.beta, CUDNN_TYPE_FLOAT}};
}

const std::vector<Rule>& rules_of(cudnnBackendDescriptorType_t type) {
  static const std::map<cudnnBackendDescriptorType_t, std::vector<Rule>> all{
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
       {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, Kind::optional},
        {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, Kind::optional}}},
      {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
       {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64}}},
      {CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
        {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, Kind::optional},
        {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, Kind::optional},
        {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, Kind::optional},
        {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, Kind::optional}}},
      {CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
       {{CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
        {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
        {CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, CUDNN_TYPE_BOOLEAN, Kind::optional}}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       convolution_rules(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       convolution_rules(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       convolution_rules(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, child},
        input(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
        optional_input(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
        optional_output(CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
        optional_input(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC),
        optional_output(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC),
        {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT},
        {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT}}},
      {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE},
        {CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
        input(CUDNN_ATTR_OPERATION_GENSTATS_XDESC),
        output(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC),
        output(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC)}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_REDUCTION_DESC, child},
        input(CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
        output(CUDNN_ATTR_OPERATION_REDUCTION_YDESC)}},
      {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE},
        {CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE},
        input(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC),
        output(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC),  // an input of inference
        output(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC),
        input(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC),
        input(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC),
        optional_input(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC),
        optional_input(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC),
        optional_input(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC),
        optional_input(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC),
        optional_output(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC),
        optional_output(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC),
        output(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC)}},
      {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE},
        input(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC),
        input(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC),
        input(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC),
        input(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC),
        input(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC),
        output(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC),
        output(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC),
        output(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC)}},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATIONGRAPH_OPS, child},
        {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE}}},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
       {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, child},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
        {CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, Kind::optional}}},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
       {{CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, child, Kind::optional},
        {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, Kind::optional},
        {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, Kind::optional}}},
      {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, {{CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32}}},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
       {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}}}};
  static const std::vector<Rule> none;
  const auto found = all.find(type);
  return found == all.end() ? none : found->second;
}

}  // namespace

ConvolutionNames convolution_names(cudnnBackendDescriptorType_t operation) {
  switch (operation) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

std::vector<Operand> operands(const Descriptor& operation) {
  const bool is_inference = operation.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR &&
                            operation.value<cudnnBackendNormFwdPhase_t>(
                                CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == CUDNN_NORM_FWD_INFERENCE;
  std::vector<Operand> all;
  for (const Rule& rule : rules_of(operation.type)) {
    if (!rule.is_tensor() || operation.find(rule.name) == nullptr) continue;
    const bool is_output =
        rule.is_output() && (!is_inference || rule.name == CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
    all.push_back({read_tensor(operation.child(rule.name)), is_output});
  }
  return all;
}

bool is_known(cudnnBackendDescriptorType_t descriptor, AttributeName name,
              cudnnBackendAttributeType_t type) {
  for (const Rule& rule : rules_of(descriptor))
    if (rule.name == name && rule.type == type) return true;
  violation(attribute_rule, fmt::format("descriptor {} has no attribute {} of type {}",
                                        static_cast<int>(descriptor), static_cast<int>(name),
                                        static_cast<int>(type)));
  return false;
}

bool is_complete(const Descriptor& descriptor) {
  for (const Rule& rule : rules_of(descriptor.type)) {
    const Attribute* const attribute = descriptor.find(rule.name);
    if (!rule.is_required() || (attribute != nullptr && attribute->count() > 0)) continue;
    violation(attribute_rule,
              fmt::format("descriptor {} lacks attribute {}", static_cast<int>(descriptor.type),
                          static_cast<int>(rule.name)));
    return false;
  }
  return true;
}

}  // namespace lockstep::simulated_gpu::dnn
