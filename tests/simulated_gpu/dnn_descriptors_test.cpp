// SPDX-License-Identifier: BSD-3-Clause
// Violates the contracts of cuDNN's descriptors that the simulated GPU checks, with calls of the
// backend API, and tests that the violation is found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cudnn.h>

#include <cudnn_frontend/thirdparty/nlohmann/json.hpp>
#include <map>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/cuda.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::simulated_gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A descriptor of cuDNN's backend API.
class Description {
 public:
  explicit Description(cudnnBackendDescriptorType_t type) {
    cudnnBackendCreateDescriptor(type, &handle_);
  }
  ~Description() { cudnnBackendDestroyDescriptor(handle_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  template <class T>
  Description& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   const std::vector<T>& values) {
    cudnnBackendSetAttribute(handle_, name, type, static_cast<std::int64_t>(values.size()),
                             values.data());
    return *this;
  }
  Description& set(cudnnBackendAttributeName_t name, const Description& child) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{child.handle_});
  }
  Description& finalize() {
    status_ = cudnnBackendFinalize(handle_);
    return *this;
  }
  cudnnStatus_t status() const { return status_; }
  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_NOT_INITIALIZED;
};

using Sizes = std::vector<std::int64_t>;

struct TensorCase {
  Sizes sizes{2, 3, 4, 5}, strides{60, 1, 15, 3};
  std::int64_t uid = 1, alignment = 16;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool is_virtual = false, is_by_value = false;
};

void describe(Description& tensor, const TensorCase& from) {
  // std::vector<bool> has no array of its values.
  const auto set_flag = [&](cudnnBackendAttributeName_t name, bool value) {
    cudnnBackendSetAttribute(tensor.handle(), name, CUDNN_TYPE_BOOLEAN, 1, &value);
  };
  set_flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, from.is_virtual);
  set_flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, from.is_by_value);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{from.type})
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, from.sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, from.strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Sizes{from.uid})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, Sizes{from.alignment})
      .finalize();
}

TEST(DnnDescriptors, WrongTensorIsFound) {
  const std::map<std::string, TensorCase> cases{
      {"number of dimensions", {.sizes = {2, 3, 4}, .strides = {12, 1, 3}}},
      {"sizes", {.sizes = {2, 0, 4, 5}}},
      {"strides of", {.strides = {60, 1, -15, 3}}},
      {"strides (not NHWC)", {.strides = {60, 20, 5, 1}}},
      {"data type", {.type = CUDNN_DATA_INT8}},
      {"alignment", {.alignment = 12}},
      {"virtual and by value", {.is_virtual = true, .is_by_value = true}},
      {"by value, number", {.is_by_value = true}}};
  for (const auto& [message, wrong] : cases) {
    Description tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    EXPECT_THAT(record_violations([&] { describe(tensor, wrong); }),
                ElementsAre(HasSubstr("tensor of cuDNN: " + message)));
    EXPECT_NE(tensor.status(), CUDNN_STATUS_SUCCESS);
  }
  Description right(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  describe(right, {});
  EXPECT_EQ(right.status(), CUDNN_STATUS_SUCCESS);
}

TEST(DnnDescriptors, WrongAttributeIsFound) {
  const auto found = [](const std::function<void(Description&)>& work) {
    Description tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    return record_violations([&] { work(tensor); });
  };
  const auto is_found = ElementsAre(HasSubstr("attributes of descriptors"));
  EXPECT_THAT(found([](auto& tensor) { tensor.finalize(); }), is_found);
  EXPECT_THAT(found([](auto& tensor) {
                tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_DOUBLE, std::vector{1.0});
              }),
              is_found);
  EXPECT_THAT(found([](auto& tensor) {
                tensor.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Sizes{1});
              }),
              is_found);
  EXPECT_THAT(found([](auto& tensor) {
                describe(tensor, {});
                tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Sizes{2});
              }),
              is_found);
  EXPECT_THAT(found([](auto& tensor) {
                Description operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
                operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensor);
              }),
              is_found);
}

struct ConvolutionCase {
  Sizes y{2, 7, 4, 5};  ///< sizes
  std::int64_t padding = 1, dilation = 1;
  float beta = 0;
};

void describe(Description& operation, const ConvolutionCase& from) {
  const auto dense = [](const Sizes& s) { return Sizes{s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}; };
  Description x(CUDNN_BACKEND_TENSOR_DESCRIPTOR), w(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      y(CUDNN_BACKEND_TENSOR_DESCRIPTOR), window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  describe(x, TensorCase{});
  describe(w, TensorCase{.sizes = {7, 3, 3, 3}, .strides = {27, 1, 9, 3}, .uid = 2});
  describe(y, TensorCase{.sizes = from.y, .strides = dense(from.y), .uid = 3});
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT})
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
           std::vector{CUDNN_CROSS_CORRELATION})
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, Sizes{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, Sizes{from.padding, 1})
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, Sizes{1, 1})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Sizes{from.dilation, 1})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Sizes{1, 1})
      .finalize();
  if (window.status() != CUDNN_STATUS_SUCCESS) return;
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, std::vector{1.0F})
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, std::vector{from.beta})
      .finalize();
}

TEST(DnnDescriptors, WrongConvolutionIsFound) {
  const std::vector<std::pair<std::string, ConvolutionCase>> cases{
      {"sizes", {.y = {2, 7, 4, 4}}},
      {"sizes", {.y = {2, 6, 4, 5}}},
      {"sizes", {.padding = 0}},
      {"type, mode, padding or stride", {.padding = -1}},
      {"type, mode, padding or stride", {.dilation = 2}},
      {"factors", {.beta = 1}}};
  for (const auto& [message, wrong] : cases) {
    Description operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    EXPECT_THAT(record_violations([&] { describe(operation, wrong); }),
                ElementsAre(HasSubstr("operation of cuDNN: " + message)));
  }
  Description right(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  describe(right, ConvolutionCase{});
  EXPECT_EQ(right.status(), CUDNN_STATUS_SUCCESS);
}

/// Describes the graph y = x op b, unless it breaks a rule before.
void describe(Description& graph, cudnnPointwiseMode_t mode, const TensorCase& b,
              const TensorCase& y) {
  Description x_tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR), b_tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      y_tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR), form(CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
      operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  describe(x_tensor, TensorCase{});
  describe(b_tensor, b);
  describe(y_tensor, y);
  form.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode})
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT})
      .finalize();
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, form)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x_tensor)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b_tensor)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y_tensor)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, std::vector{1.0F})
      .set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, std::vector{1.0F})
      .finalize();
  if (operation.status() != CUDNN_STATUS_SUCCESS) return;
  cudnnHandle_t handle = nullptr;
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle})
      .finalize();
}

std::vector<std::string> pointwise_violations(cudnnPointwiseMode_t mode, const TensorCase& b,
                                              const TensorCase& y) {
  Description graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  return record_violations([&] { describe(graph, mode, b, y); });
}

TEST(DnnDescriptors, WrongPointwiseOperationOrGraphIsFound) {
  const TensorCase b{.uid = 2}, y{.uid = 3};
  const auto operation = [](const std::string& text) {
    return ElementsAre(HasSubstr("operation of cuDNN: " + text));
  };
  const auto graph = [](const std::string& text) {
    return ElementsAre(HasSubstr("operation graph of cuDNN: tensor " + text));
  };
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_ADD, b, y), IsEmpty());
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_TANH_FWD, b, y), operation("mode"));
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_RELU_FWD, b, y), operation("operands"));
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_CMP_GT, b, y), operation("data type"));
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_ADD, {.sizes = {1, 3, 4, 5}, .uid = 2}, y),
              operation("sizes"));
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_ADD, {.type = CUDNN_DATA_HALF}, y),
              graph("1 has two descriptions"));
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_ADD, {.uid = 2, .is_virtual = true}, y),
              graph("2 is virtual and read before"));
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_ADD, b, {.uid = 3, .is_virtual = true}),
              graph("3 is virtual and never read"));
  EXPECT_THAT(pointwise_violations(CUDNN_POINTWISE_ADD, b, b), graph("2 is computed, but"));
}

struct NormCase {
  cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
  bool has_running_statistics = true;
  cudnnDataType_t statistics = CUDNN_DATA_FLOAT;
};

TEST(DnnDescriptors, WrongBatchNormIsFound) {
  const auto violations = [](const NormCase& one) {
    return record_violations([&] {
      Description operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
      std::int64_t uid = 0;
      const auto add = [&](cudnnBackendAttributeName_t name, TensorCase from) {
        Description tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        from.uid = ++uid;
        describe(tensor, from);
        operation.set(name, tensor);
      };
      const TensorCase vector{.sizes = {1, 3, 1, 1}, .strides = {3, 1, 3, 3}};
      const TensorCase scalar{.sizes = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .is_by_value = true};
      TensorCase statistics = vector;
      statistics.type = one.statistics;
      add(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, {});
      add(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, {});
      add(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, statistics);
      add(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, vector);
      add(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, vector);
      add(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, vector);
      add(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, scalar);
      add(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, scalar);
      if (one.has_running_statistics)
        for (const auto name : {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
                                CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC})
          add(name, vector);
      operation
          .set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE,
               std::vector{CUDNN_BATCH_NORM})
          .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE,
               std::vector{one.phase})
          .finalize();
    });
  };
  const auto phase = ElementsAre(HasSubstr("operands of the phase"));
  EXPECT_THAT(violations({}), IsEmpty());
  EXPECT_THAT(violations({.phase = CUDNN_NORM_FWD_INFERENCE}), phase);
  EXPECT_THAT(violations({.has_running_statistics = false}), phase);
  EXPECT_THAT(violations({.statistics = CUDNN_DATA_BFLOAT16}),
              ElementsAre(HasSubstr("sizes or types of a batch norm")));
}

TEST(DnnDescriptors, WrongSumIsFound) {
  const auto violations = [](cudnnReduceTensorOp_t operation, cudnnDataType_t type) {
    return record_violations([&] {
      Description x(CUDNN_BACKEND_TENSOR_DESCRIPTOR), y(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
          form(CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
          sum(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
      describe(x, TensorCase{});
      describe(y,
               TensorCase{.sizes = {1, 3, 1, 1}, .strides = {3, 1, 3, 3}, .uid = 2, .type = type});
      form.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
               std::vector{operation})
          .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT})
          .finalize();
      sum.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, form)
          .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
          .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
          .finalize();
    });
  };
  const auto is_found = ElementsAre(HasSubstr("operation of cuDNN: sizes, types or operator"));
  EXPECT_THAT(violations(CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT), IsEmpty());
  EXPECT_THAT(violations(CUDNN_REDUCE_TENSOR_MAX, CUDNN_DATA_FLOAT), is_found);
  EXPECT_THAT(violations(CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_HALF), is_found);
}

void describe(Description& pack, const Sizes& uids, void* memory) {
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::vector<void*>(uids.size(), memory))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{memory})
      .finalize();
}

TEST(DnnDescriptors, TensorThatIsBoundTwiceIsFound) {
  Description pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  EXPECT_THAT(record_violations([&] {
                describe(pack, {1, 1}, &pack);
              }),
              ElementsAre(HasSubstr("variant pack of cuDNN")));
}

TEST(DnnDescriptors, TensorWithoutMemoryIsFound) {
  Description graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
      heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), engine(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
      plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  describe(graph, CUDNN_POINTWISE_ADD, {.uid = 2}, {.uid = 3});
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A})
      .finalize();
  cudnnBackendDescriptor_t first = engine.handle();
  cudnnBackendGetAttribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, nullptr, &first);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine).finalize();
  ASSERT_EQ(plan.status(), CUDNN_STATUS_SUCCESS);
  const core::Buffer memory = core::device_buffer(1024, "a test");
  describe(pack, {1, 2, 4}, memory.data());
  EXPECT_THAT(record_violations([&] {
                EXPECT_NE(cudnnBackendExecute(nullptr, plan.handle(), pack.handle()),
                          CUDNN_STATUS_SUCCESS);
              }),
              ElementsAre(HasSubstr("variant pack of cuDNN: tensor 3 has no memory"),
                          HasSubstr("variant pack of cuDNN: tensor 4 is not in the graph")));
}

TEST(DnnDescriptors, DevicePropertiesAreReadAsJson) {
  const auto backend = backend::make_backend(backend::DeviceKind::cuda, 1);
  const backend::Device& device = backend->device();
  const auto fields = nlohmann::json::parse(device.description());
  EXPECT_EQ(fields.at("deviceName"), device.name());
  EXPECT_EQ(fields.at("deviceVer"), 900);
  EXPECT_EQ(fields.at("totalGlobalMem"), device.identity()->memory_bytes);
}

}  // namespace
}  // namespace lockstep::simulated_gpu
