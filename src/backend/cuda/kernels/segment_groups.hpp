// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Access to groups of four elements of flat buffers and native tensors, and the kernels that
// convert between the two. A group is read and written with one access of 16 bytes (float32) or 8
// bytes if it is full, begins at a multiple of four elements and has no padding; otherwise element
// by element.

#include "segments.hpp"

namespace lockstep::backend::cuda::kernels {

LOCKSTEP_HOST_DEVICE inline bool is_packed(std::int64_t index, std::int32_t count) {
  return count == group_elements && index % group_elements == 0;
}

/// Reads elements [index, index + count) of an array; the rest of the group reads as 0.
template <class T>
LOCKSTEP_HOST_DEVICE void load_elements(const T* from, std::int64_t index, std::int32_t count,
                                        float (&to)[group_elements]) {
  if (is_packed(index, count)) {
    const auto pack = load_pack<group_elements>(from + index);
    for (int lane = 0; lane < group_elements; ++lane) to[lane] = pack[lane];
  } else {
    for (int lane = 0; lane < group_elements; ++lane)
      to[lane] = lane < count ? load(from, index + lane) : 0.0f;
  }
}

template <class T>
LOCKSTEP_HOST_DEVICE void store_elements(T* to, std::int64_t index, std::int32_t count,
                                         const float (&from)[group_elements]) {
  if (is_packed(index, count)) {
    store_pack(to + index, from);
  } else {
    for (int lane = 0; lane < group_elements; ++lane) {
      if (lane < count) store(to, index + lane, from[lane]);
    }
  }
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
