// SPDX-License-Identifier: BSD-3-Clause
// Cross-correlation (Goodfellow, Bengio, Courville: Deep Learning, 2016, section 9.1) with zero
// padding, h = p stride + r - padding and w = q stride + s - padding:
//   y[n,k,p,q] = b[k] + sum_{c,r,s} W[k,c,r,s] x[n,c,h,w]
//   dx[n,c,h,w] = sum_{k,r,s} W[k,c,r,s] dy[n,k,p,q]
//   dW[k,c,r,s] = sum_{n,p,q} x[n,c,h,w] dy[n,k,p,q],   db[k] = sum_{n,p,q} dy[n,k,p,q]

#include <algorithm>

#include "lockstep/graph/operations/convolution.hpp"
#include "operations.hpp"

namespace lockstep::backend::reference {

namespace {

/// Range [begin, end) of outputs along one axis whose input, output * stride + shift, is inside the
/// image.
struct Inside {
  std::int64_t begin;
  std::int64_t end;

  Inside(std::int64_t inputs, std::int64_t outputs, std::int64_t stride, std::int64_t shift)
      : begin(shift >= 0 ? 0 : (-shift + stride - 1) / stride),
        end(inputs - shift <= 0 ? 0 : std::min(outputs, (inputs - shift - 1) / stride + 1)) {}
};

/// Calls visit(index of the weight, n, k, c, p, h, range of q, shift) for every row of outputs and
/// every weight that contributes to it. Output q of the row reads input w = q stride + shift.
template <class Visit>
void for_each_row(const graph::Convolution& operation, const Tensor& x, const Tensor& y,
                  Visit visit) {
  const std::int64_t kernel = operation.kernel;
  for (std::int64_t n = 0; n < x.batch; ++n) {
    for (std::int64_t k = 0; k < y.shape.channels; ++k) {
      for (std::int64_t c = 0; c < x.shape.channels; ++c) {
        for (std::int64_t r = 0; r < kernel; ++r) {
          const std::int64_t shift_h = r - operation.padding;
          const Inside rows(x.shape.height, y.shape.height, operation.stride, shift_h);
          for (std::int64_t s = 0; s < kernel; ++s) {
            const std::int64_t shift_w = s - operation.padding;
            const Inside columns(x.shape.width, y.shape.width, operation.stride, shift_w);
            const std::int64_t weight = ((k * x.shape.channels + c) * kernel + r) * kernel + s;
            for (std::int64_t p = rows.begin; p < rows.end; ++p) {
              visit(weight, n, k, c, p, p * operation.stride + shift_h, columns, shift_w);
            }
          }
        }
      }
    }
  }
}

}  // namespace

void forward(const graph::Convolution& operation, NodeData& node, PlanData&) {
  const Tensor& x = node.x();
  Tensor& y = node.y;
  for (std::int64_t n = 0; n < y.batch; ++n) {
    for (std::int64_t k = 0; k < y.shape.channels; ++k) {
      std::ranges::fill(y.plane(n, k), node.bias.empty() ? 0.0 : node.bias[k]);
    }
  }
  const std::int64_t stride = operation.stride;
  for_each_row(operation, x, y,
               [&](auto index, auto n, auto k, auto c, auto p, auto h, auto columns, auto shift) {
                 const double factor = node.weight[index];
                 const double* in = x.row(n, c, h);
                 double* out = y.row(n, k, p);
                 for (std::int64_t q = columns.begin; q < columns.end; ++q) {
                   out[q] += factor * in[q * stride + shift];
                 }
               });
}

void backward(const graph::Convolution& operation, NodeData& node, const PlanData&) {
  const Tensor& x = node.x();
  const Tensor& dy = node.dy;
  Tensor* const dx = node.dx();
  const std::span<double> dbias = node.dbias;
  const std::int64_t stride = operation.stride;
  std::ranges::fill(node.dweight, 0.0);
  for_each_row(operation, x, dy,
               [&](auto index, auto n, auto k, auto c, auto p, auto h, auto columns, auto shift) {
                 const double* in = x.row(n, c, h);
                 const double* out = dy.row(n, k, p);
                 double sum = 0;
                 for (std::int64_t q = columns.begin; q < columns.end; ++q) {
                   sum += out[q] * in[q * stride + shift];
                 }
                 node.dweight[index] += sum;
               });
  if (!dbias.empty()) {
    std::ranges::fill(dbias, 0.0);
    for (std::int64_t n = 0; n < dy.batch; ++n) {
      for (std::int64_t k = 0; k < dy.shape.channels; ++k) {
        for (const double value : dy.plane(n, k)) dbias[k] += value;
      }
    }
  }
  if (dx == nullptr) return;
  for_each_row(operation, x, dy,
               [&](auto index, auto n, auto k, auto c, auto p, auto h, auto columns, auto shift) {
                 const double factor = node.weight[index];
                 const double* out = dy.row(n, k, p);
                 double* in = dx->row(n, c, h);
                 for (std::int64_t q = columns.begin; q < columns.end; ++q) {
                   in[q * stride + shift] += factor * out[q];
                 }
               });
}

}  // namespace lockstep::backend::reference
