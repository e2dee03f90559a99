// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Mapping between the flat parameter buffers and the native tensors that the kernels of the network
// read and write.
//
// The flat buffers contain the elements of each parameter in device order. Its native tensors (the
// weight as convolutions read it, the gradient as they write it) may have padded channels and other
// data types. A table of segments, each of at most 1,024 elements of one parameter, allows one
// kernel to process all parameters: kernel index = 256 segment + group of four elements. The 256
// threads of a block therefore read the same segment. A group is read and written with one access
// of 16 bytes (float32) or 8 bytes if it is full, begins at a multiple of four elements and has no
// padding; otherwise element by element.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/core/data_type.hpp"
#include "lockstep/core/error.hpp"
#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

constexpr std::int32_t segment_elements = 1024;
constexpr std::int32_t group_elements = 4;
constexpr std::int32_t segment_groups = segment_elements / group_elements;

/// A tensor of rows of channels in device memory, whose data type is known at run time.
struct NativeTensor {
  void* data = nullptr;  ///< aligned to 4 elements; null: there is no tensor
  core::DataType type = core::DataType::float32;
  std::int32_t padding = 0;  ///< channels that follow each row and belong to no parameter
};

/// Position of a parameter in the flat buffers, and its native tensors.
struct NativeParameter {
  std::int64_t flat = 0;      ///< first element in the flat buffers, a multiple of 4
  std::int64_t elements = 0;  ///< without padding
  std::int64_t channels = 1;  ///< innermost dimension, without padding; divides `elements`
  NativeTensor weight{};      ///< copy of the parameter; none: operations read the flat buffer
  NativeTensor gradient{};
  float decay = 1;            ///< factor of the weight decay: 0 or 1
  std::int32_t position = 0;  ///< among the parameters, in the order of the flat buffers
};

/// Elements [first, first + count) of one parameter.
struct Segment {
  std::int64_t flat;   ///< index of its first element in the flat buffers
  std::int64_t first;  ///< index of its first element in the parameter
  std::int32_t count;  ///< 1 to 1,024
  std::int32_t channels;
  NativeTensor weight, gradient;
  float decay;             ///< factor of the weight decay
  std::int32_t parameter;  ///< position of the parameter
};

/// Divides parameters into segments, in the order of the flat buffers. No segment extends across an
/// element of `cuts` (flat indices, ascending), e.g. the boundaries of all-reduce buckets, nor
/// across a multiple of 1,024 elements of the parameter, so that only segments that begin at a cut
/// can be unaligned.
inline std::vector<Segment> make_segments(std::span<const NativeParameter> parameters,
                                          std::span<const std::int64_t> cuts = {}) {
  std::vector<Segment> segments;
  for (const NativeParameter& parameter : parameters) {
    core::check(parameter.channels > 0 && parameter.elements % parameter.channels == 0,
                "a parameter consists of whole rows of channels");
    const bool is_padded = parameter.weight.padding > 0 || parameter.gradient.padding > 0;
    core::check(!is_padded || parameter.elements <= std::numeric_limits<std::int32_t>::max(),
                "the index of an element of a padded parameter fits in 32 bits");
    core::check(parameter.flat % group_elements == 0, "a parameter is aligned in the flat buffers");
    for (std::int64_t first = 0; first < parameter.elements;) {
      const std::int64_t flat = parameter.flat + first;
      std::int64_t count =
          std::min(segment_elements - first % segment_elements, parameter.elements - first);
      const auto cut = std::ranges::upper_bound(cuts, flat);
      if (cut != cuts.end()) count = std::min(count, *cut - flat);
      segments.push_back({.flat = flat,
                          .first = first,
                          .count = static_cast<std::int32_t>(count),
                          .channels = static_cast<std::int32_t>(parameter.channels),
                          .weight = parameter.weight,
                          .gradient = parameter.gradient,
                          .decay = parameter.decay,
                          .parameter = parameter.position});
      first += count;
    }
  }
  std::ranges::sort(segments, {}, &Segment::flat);
  return segments;
}

/// Up to four consecutive elements of a segment, the work of one thread.
struct Group {
  const Segment* segment;
  std::int64_t element;  ///< index of its first element in the segment
  std::int32_t count;    ///< at most 4; <= 0: the segment ends before this group
};

/// A range of a table of segments in device memory.
struct SegmentTable {
  const Segment* segments = nullptr;
  std::int64_t size = 0;

  /// Returns the number of groups, including those beyond the ends of the segments.
  LOCKSTEP_HOST_DEVICE std::int64_t groups() const { return size * segment_groups; }
  LOCKSTEP_HOST_DEVICE Group group(std::int64_t index) const {
    const Segment* const segment = segments + index / segment_groups;
    const auto element = static_cast<std::int32_t>(index % segment_groups) * group_elements;
    const std::int32_t rest = segment->count - element;
    return {segment, element, rest < group_elements ? rest : group_elements};
  }
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

/// Returns the index in a padded tensor of element `element` of its parameter: each row before it
/// adds its padding.
LOCKSTEP_HOST_DEVICE inline std::int64_t padded_index(const NativeTensor& tensor,
                                                      std::int64_t element, std::int32_t channels) {
  const std::uint32_t row =
      static_cast<std::uint32_t>(element) / static_cast<std::uint32_t>(channels);
  return element + std::int64_t{row} * tensor.padding;
}

template <class T>
LOCKSTEP_HOST_DEVICE void load_typed(const NativeTensor& from, const Group& group,
                                     float (&to)[group_elements]) {
  const auto* const data = static_cast<const T*>(from.data);
  const std::int64_t first = group.segment->first + group.element;
  if (from.padding == 0) {
    load_elements(data, first, group.count, to);
    return;
  }
  for (int lane = 0; lane < group_elements; ++lane) {
    to[lane] = lane < group.count
                   ? load(data, padded_index(from, first + lane, group.segment->channels))
                   : 0.0f;
  }
}

template <class T>
LOCKSTEP_HOST_DEVICE void store_typed(const NativeTensor& to, const Group& group,
                                      const float (&from)[group_elements]) {
  auto* const data = static_cast<T*>(to.data);
  const std::int64_t first = group.segment->first + group.element;
  if (to.padding == 0) {
    store_elements(data, first, group.count, from);
    return;
  }
  for (int lane = 0; lane < group_elements; ++lane) {
    if (lane < group.count)
      store(data, padded_index(to, first + lane, group.segment->channels), from[lane]);
  }
}

/// Reads a group from a native tensor of its parameter; elements beyond the end read as 0.
LOCKSTEP_HOST_DEVICE inline void load_group(const NativeTensor& from, const Group& group,
                                            float (&to)[group_elements]) {
  switch (from.type) {
    case core::DataType::bfloat16: load_typed<core::BFloat16>(from, group, to); return;
    case core::DataType::float16: load_typed<Float16>(from, group, to); return;
    case core::DataType::float32: break;
  }
  load_typed<float>(from, group, to);
}

/// Writes a group to a native tensor of its parameter. Padding is not written.
LOCKSTEP_HOST_DEVICE inline void store_group(const NativeTensor& to, const Group& group,
                                             const float (&from)[group_elements]) {
  switch (to.type) {
    case core::DataType::bfloat16: store_typed<core::BFloat16>(to, group, from); return;
    case core::DataType::float16: store_typed<Float16>(to, group, from); return;
    case core::DataType::float32: break;
  }
  store_typed<float>(to, group, from);
}

/// Converts native gradients, if there are any, to the flat gradients of type W, the communication
/// data type. Gaps between parameters are not written.
/// Memory traffic: reads native gradients; writes gradients; from caches: segments.
template <class W>
struct FlushGradients {
  SegmentTable table;
  W* gradients;  ///< flat buffer

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.groups(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Group group = table.group(index);
    const Segment& segment = *group.segment;
    if (group.count <= 0 || segment.gradient.data == nullptr) return;
    float values[group_elements];
    load_group(segment.gradient, group, values);
    store_elements(gradients, segment.flat + group.element, group.count, values);
  }
};

/// Converts the flat parameters to the native copies of the weights, if there are any. Padding
/// channels are not written: they are zeroed once, at allocation.
/// Memory traffic: reads parameters; writes native weights; from caches: segments.
struct RefreshWeights {
  SegmentTable table;
  const float* parameters;  ///< flat buffer

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.groups(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Group group = table.group(index);
    const Segment& segment = *group.segment;
    if (group.count <= 0 || segment.weight.data == nullptr) return;
    float values[group_elements];
    load_elements(parameters, segment.flat + group.element, group.count, values);
    store_group(segment.weight, group, values);
  }
};

}  // namespace lockstep::backend::cuda::kernels
