// SPDX-License-Identifier: BSD-3-Clause
// The operations of cuDNN's graphs as simple loops. Sums are accumulated in float64, and every
// result is rounded to the data type of its tensor, also of a virtual one.

#include <cmath>

#include "dnn.hpp"

namespace lockstep::simulated_gpu::dnn {

namespace {

/// The tensors of an operation, by attribute.
class Operation {
 public:
  Operation(const Descriptor& descriptor, Values& values)
      : descriptor_(descriptor), values_(values) {}

  bool has(AttributeName name) const { return descriptor_.find(name) != nullptr; }
  Tensor tensor(AttributeName name) const { return read_tensor(descriptor_.child(name)); }
  const std::vector<float>& in(AttributeName name) const { return values_.at(tensor(name).uid); }
  float scalar(AttributeName name) const { return in(name).front(); }
  template <class T>
  void out(AttributeName name, const std::vector<T>& result) {
    const Tensor to = tensor(name);
    std::vector<float>& elements = values_[to.uid];
    elements.assign(result.begin(), result.end());
    round(to, elements);
  }

 private:
  const Descriptor& descriptor_;
  Values& values_;
};

struct Extents {
  std::int64_t n, c, h, w;
};
Extents extents_of(const Tensor& tensor) {
  return {tensor.sizes[0], tensor.sizes[1], tensor.sizes[2], tensor.sizes[3]};
}

/// Window of a convolution in one dimension.
struct Window {
  std::int64_t stride, padding;
};

/// Calls work(index in y, index in x, index in the weights) for every product of the convolution of
/// x with weights of extents w. All indices are those of NHWC or KRSC arrays.
template <class Work>
void for_each_product(const Extents& x, const Extents& w, const Extents& y, Window rows,
                      Window columns, Work&& work) {
  for (std::int64_t n = 0; n < y.n; ++n) {
    for (std::int64_t p = 0; p < y.h; ++p) {
      for (std::int64_t q = 0; q < y.w; ++q) {
        for (std::int64_t r = 0; r < w.h; ++r) {
          const std::int64_t row = p * rows.stride - rows.padding + r;
          if (row < 0 || row >= x.h) continue;
          for (std::int64_t s = 0; s < w.w; ++s) {
            const std::int64_t column = q * columns.stride - columns.padding + s;
            if (column < 0 || column >= x.w) continue;
            const std::int64_t at_x = ((n * x.h + row) * x.w + column) * x.c;
            const std::int64_t at_y = ((n * y.h + p) * y.w + q) * y.c;
            for (std::int64_t k = 0; k < y.c; ++k) {
              const std::int64_t at_w = ((k * w.h + r) * w.w + s) * w.c;
              for (std::int64_t c = 0; c < x.c; ++c)
                work(static_cast<std::size_t>(at_y + k), static_cast<std::size_t>(at_x + c),
                     static_cast<std::size_t>(at_w + c));
            }
          }
        }
      }
    }
  }
}

void convolve(const Descriptor& descriptor, Operation& operation) {
  const auto names = convolution_names(descriptor.type);
  const Descriptor& form = descriptor.child(names.window);
  const auto strides = form.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto paddings = form.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const Window rows{strides[0], paddings[0]}, columns{strides[1], paddings[1]};
  const Tensor x = operation.tensor(names.x), w = operation.tensor(names.w),
               y = operation.tensor(names.y);
  const auto compute = [&](AttributeName result, const Tensor& to, auto&& add) {
    std::vector<double> sums(static_cast<std::size_t>(to.elements()));
    for_each_product(extents_of(x), extents_of(w), extents_of(y), rows, columns,
                     [&](std::size_t i, std::size_t j, std::size_t k) { add(sums, i, j, k); });
    operation.out(result, sums);
  };
  if (descriptor.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
    const auto &from = operation.in(names.x), &factors = operation.in(names.w);
    compute(names.y, y, [&](auto& sums, std::size_t i, std::size_t j, std::size_t k) {
      sums[i] += double{from[j]} * double{factors[k]};
    });
  } else if (descriptor.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    const auto &from = operation.in(names.y), &factors = operation.in(names.w);
    compute(names.x, x, [&](auto& sums, std::size_t i, std::size_t j, std::size_t k) {
      sums[j] += double{from[i]} * double{factors[k]};
    });
  } else {
    const auto &gradients = operation.in(names.y), &from = operation.in(names.x);
    compute(names.w, w, [&](auto& sums, std::size_t i, std::size_t j, std::size_t k) {
      sums[k] += double{gradients[i]} * double{from[j]};
    });
  }
}

void apply_pointwise(const Descriptor& descriptor, Operation& operation) {
  const auto mode = descriptor.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                        .value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const auto& left = operation.in(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  const bool is_backward = mode == CUDNN_POINTWISE_RELU_BWD;
  const auto& right = is_backward ? operation.in(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC)
                      : operation.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
                          ? operation.in(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
                          : left;
  std::vector<float> result(left.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    const float a = left[i], b = right[i % right.size()];  // vectors are broadcast over the pixels
    switch (mode) {
      case CUDNN_POINTWISE_RELU_FWD: result[i] = a <= 0 ? 0 : a; break;
      case CUDNN_POINTWISE_RELU_BWD: result[i] = a > 0 ? b : 0; break;
      case CUDNN_POINTWISE_ADD: result[i] = a + b; break;
      case CUDNN_POINTWISE_MUL: result[i] = a * b; break;
      case CUDNN_POINTWISE_CMP_GT: result[i] = a > b ? 1 : 0; break;
      default: break;
    }
  }
  operation.out(
      is_backward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
      result);
}

/// Sums a map over the pixels of all images, by channel.
std::vector<double> channel_sums(const std::vector<float>& map, const Tensor& vector,
                                 bool squared) {
  std::vector<double> sums(static_cast<std::size_t>(vector.elements()));
  for (std::size_t i = 0; i < map.size(); ++i)
    sums[i % sums.size()] += squared ? double{map[i]} * double{map[i]} : double{map[i]};
  return sums;
}

void train_norm(Operation& operation) {
  const auto& x = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  const auto& scale = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC);
  const auto& bias = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
  const auto& old_mean = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC);
  const auto& old_variance = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC);
  const auto epsilon = double{operation.scalar(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)};
  const auto momentum = double{operation.scalar(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC)};
  const std::size_t channels = scale.size();
  const auto rows = static_cast<double>(x.size() / channels);
  std::vector<double> y(x.size()), means(channels), deviations(channels), next_means(channels),
      next_variances(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (std::size_t i = c; i < x.size(); i += channels) sum += double{x[i]};
    const double mean = sum / rows;
    for (std::size_t i = c; i < x.size(); i += channels)
      squares += (double{x[i]} - mean) * (double{x[i]} - mean);
    const double inverse = 1 / std::sqrt(squares / rows + epsilon);
    const auto moved = [&](float old, double now) {
      return (1 - momentum) * double{old} + momentum * now;
    };
    means[c] = mean;
    deviations[c] = inverse;
    next_means[c] = moved(old_mean[c], mean);
    next_variances[c] = moved(old_variance[c], squares / (rows - 1));
    for (std::size_t i = c; i < x.size(); i += channels)
      y[i] = (double{x[i]} - mean) * inverse * double{scale[c]} + double{bias[c]};
  }
  operation.out(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y);
  operation.out(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, means);
  operation.out(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, deviations);
  operation.out(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, next_means);
  operation.out(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, next_variances);
}

void infer_norm(Operation& operation) {
  std::vector<float> y = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  const auto& mean = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC);
  const auto& inverse = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC);
  const auto& scale = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC);
  const auto& bias = operation.in(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i % mean.size();
    y[i] = (y[i] - mean[c]) * inverse[c] * scale[c] + bias[c];
  }
  operation.out(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y);
}

void norm_backward(Operation& operation) {
  const auto& x = operation.in(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  const auto& dy = operation.in(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC);
  const auto& means = operation.in(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
  const auto& deviations = operation.in(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC);
  const auto& scale = operation.in(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC);
  const std::size_t channels = scale.size();
  const auto rows = static_cast<double>(x.size() / channels);
  std::vector<double> dx(x.size()), dscale(channels), dbias(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = double{means[c]}, inverse = double{deviations[c]};
    for (std::size_t i = c; i < x.size(); i += channels) {
      dbias[c] += double{dy[i]};
      dscale[c] += double{dy[i]} * (double{x[i]} - mean) * inverse;
    }
    for (std::size_t i = c; i < x.size(); i += channels) {
      const double normal = (double{x[i]} - mean) * inverse;
      dx[i] = double{scale[c]} * inverse *
              (double{dy[i]} - dbias[c] / rows - normal * dscale[c] / rows);
    }
  }
  operation.out(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx);
  operation.out(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dscale);
  operation.out(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dbias);
}

}  // namespace

void execute(const Descriptor& descriptor, Values& values) {
  Operation operation(descriptor, values);
  const auto sum = [&](AttributeName x, AttributeName to, bool squared) {
    operation.out(to, channel_sums(operation.in(x), operation.tensor(to), squared));
  };
  switch (descriptor.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return convolve(descriptor, operation);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return apply_pointwise(descriptor, operation);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return sum(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, false);
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
      sum(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, false);
      return sum(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC,
                 true);
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return descriptor.value<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) ==
                     CUDNN_NORM_FWD_TRAINING
                 ? train_norm(operation)
                 : infer_norm(operation);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: return norm_backward(operation);
    default: violation("operation of cuDNN", "an operation that is not simulated");
  }
}

}  // namespace lockstep::simulated_gpu::dnn
