#pragma once

// Mapping between the flat parameter buffers and the native tensors that the kernels of the network
// read and write.
//
// The flat buffers contain the elements of each parameter in device order, without gaps. Its native
// tensors (the weight as convolutions read it, the gradient as they write it) may have padded
// channels and other data types: element i is at index (i / channels) padded_channels + i %
// channels. A table of segments, each of at most 1,024 elements of one parameter, allows one kernel
// to process all parameters: kernel index = 1,024 segment + element.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/core/data_type.hpp"
#include "lockstep/core/error.hpp"
#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

constexpr std::int64_t segment_elements = 1024;

/// Position of a parameter in the flat buffers, and its native tensors in device memory.
struct NativeParameter {
  std::int64_t flat = 0;             ///< first element in the flat buffers
  std::int64_t elements = 0;         ///< without padding
  std::int64_t channels = 1;         ///< innermost dimension; divides `elements`
  std::int64_t padded_channels = 1;  ///< of the native tensors; >= channels
  void* weight = nullptr;            ///< native copy; null: operations read the flat buffer
  core::DataType weight_type = core::DataType::float32;
  const void* gradient = nullptr;  ///< native gradient; null: operations write the flat buffer
  core::DataType gradient_type = core::DataType::float32;
};

/// Elements [first, first + count) of one parameter.
struct Segment {
  std::int64_t flat;   ///< index of its first element in the flat buffers
  std::int64_t first;  ///< index of its first element in the parameter
  std::int32_t count;  ///< 1 to 1,024
  std::int32_t channels, padded_channels;
  core::DataType weight_type, gradient_type;
  void* weight;
  const void* gradient;

  /// Returns the index of element `element` of this segment in the native tensors.
  LOCKSTEP_HOST_DEVICE std::int64_t native(std::int64_t element) const {
    if (channels == padded_channels) return first + element;
    const Division at = divide(first + element, channels);
    return at.quotient * padded_channels + at.remainder;
  }
};

/// Divides parameters into segments, in the order of the flat buffers. No segment extends across an
/// element of `cuts` (flat indices, ascending), e.g. the boundaries of all-reduce buckets.
inline std::vector<Segment> make_segments(std::span<const NativeParameter> parameters,
                                          std::span<const std::int64_t> cuts = {}) {
  std::vector<Segment> segments;
  for (const NativeParameter& parameter : parameters) {
    core::check(parameter.channels > 0 && parameter.padded_channels >= parameter.channels &&
                    parameter.elements % parameter.channels == 0,
                "a parameter consists of whole rows of channels");
    for (std::int64_t first = 0; first < parameter.elements;) {
      const std::int64_t flat = parameter.flat + first;
      std::int64_t count = std::min(segment_elements, parameter.elements - first);
      const auto cut = std::ranges::upper_bound(cuts, flat);
      if (cut != cuts.end()) count = std::min(count, *cut - flat);
      segments.push_back({.flat = flat,
                          .first = first,
                          .count = static_cast<std::int32_t>(count),
                          .channels = static_cast<std::int32_t>(parameter.channels),
                          .padded_channels = static_cast<std::int32_t>(parameter.padded_channels),
                          .weight_type = parameter.weight_type,
                          .gradient_type = parameter.gradient_type,
                          .weight = parameter.weight,
                          .gradient = parameter.gradient});
      first += count;
    }
  }
  std::ranges::sort(segments, {}, &Segment::flat);
  return segments;
}

/// A range of a table of segments in device memory.
struct SegmentTable {
  const Segment* segments = nullptr;
  std::int64_t size = 0;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return size * segment_elements; }
};

/// Returns the part of `table` that contains the flat elements [begin, end). `segments`: the
/// contents of `table` on the host. `begin` and `end` must be cuts or boundaries between
/// parameters; throws `Error` (internal) if a segment extends across one of them.
inline SegmentTable part_of(SegmentTable table, std::span<const Segment> segments,
                            std::int64_t begin, std::int64_t end) {
  const auto first = std::ranges::lower_bound(segments, begin, {}, &Segment::flat);
  const auto last = std::ranges::lower_bound(segments, end, {}, &Segment::flat);
  const auto ends_by = [&](auto position, std::int64_t at) {
    return position == segments.begin() || (position - 1)->flat + (position - 1)->count <= at;
  };
  core::check(begin <= end && ends_by(first, begin) && ends_by(last, end),
              "a segment lies on one side of a bucket's end");
  return {table.segments + (first - segments.begin()), last - first};
}

LOCKSTEP_HOST_DEVICE inline float load_as(core::DataType type, const void* from, std::int64_t i) {
  switch (type) {
    case core::DataType::bfloat16: return load(static_cast<const core::BFloat16*>(from), i);
    case core::DataType::float16: return load(static_cast<const Float16*>(from), i);
    case core::DataType::float32: break;
  }
  return load(static_cast<const float*>(from), i);
}

LOCKSTEP_HOST_DEVICE inline void store_as(core::DataType type, void* to, std::int64_t i,
                                          float value) {
  switch (type) {
    case core::DataType::bfloat16: store(static_cast<core::BFloat16*>(to), i, value); return;
    case core::DataType::float16: store(static_cast<Float16*>(to), i, value); return;
    case core::DataType::float32: break;
  }
  store(static_cast<float*>(to), i, value);
}

/// Converts native gradients to the flat gradients of type W, the communication data type. Gaps
/// between parameters are not written.
template <class W>
struct FlushGradients {
  SegmentTable table;
  W* gradients;  ///< flat buffer

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.count(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Segment& segment = table.segments[index / segment_elements];
    const std::int64_t element = index % segment_elements;
    if (element >= segment.count || segment.gradient == nullptr) return;
    store(gradients, segment.flat + element,
          load_as(segment.gradient_type, segment.gradient, segment.native(element)));
  }
};

/// Converts the flat parameters to the native copies of the weights, if there are any. Padding
/// channels are not written: they are zeroed once, at allocation.
struct RefreshWeights {
  SegmentTable table;
  const float* parameters;  ///< flat buffer

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.count(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Segment& segment = table.segments[index / segment_elements];
    const std::int64_t element = index % segment_elements;
    if (element >= segment.count || segment.weight == nullptr) return;
    store_as(segment.weight_type, segment.weight, segment.native(element),
             parameters[segment.flat + element]);
  }
};

}  // namespace lockstep::backend::cuda::kernels
