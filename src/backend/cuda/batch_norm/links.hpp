#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "../../fusion.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend::cuda {

struct Context;

/// A convolution and the batch norm behind it that share work: the convolution leaves the sums of
/// its output. Where there is a reader, the batch norm's output is never in memory: the convolution
/// behind it makes it from the batch norm's input, as often as it reads it. Vectors (channels) on
/// the device.
struct BatchNormLink {
  graph::NodeId convolution = -1;
  graph::NodeId batch_norm = -1;
  graph::NodeId reader = -1;  ///< a convolution; -1: none, the output is written
  std::int64_t channels = 0;
  float* sums = nullptr;
  float* squares = nullptr;
  std::byte* scale = nullptr;   ///< float16, for the reader
  std::byte* offset = nullptr;  ///< float16, for the reader

  bool has_reader() const { return reader != -1; }
};

/// All links of a plan: a pass over its steps that decides where convolutions take over work of the
/// batch norms around them (`PlanOptions::batch_norm_fusion`).
class BatchNormLinks {
 public:
  BatchNormLinks() = default;
  BatchNormLinks(const Context& context, const std::vector<Step>& steps);

  /// The link behind a convolution, of a batch norm, or before a convolution that is its reader;
  /// null where there is none.
  const BatchNormLink* behind(graph::NodeId convolution) const;
  const BatchNormLink* of(graph::NodeId batch_norm) const;
  const BatchNormLink* before(graph::NodeId convolution) const;

  std::size_t bytes() const;       ///< of the vectors
  std::size_t sums_bytes() const;  ///< of those in front that must be 0 before a forward pass
  void place(std::byte* memory);   ///< aligned to 256 bytes

 private:
  /// By step, the steps that read its output.
  using Readers = std::vector<std::vector<int>>;

  void find_sums(const Context& context, const std::vector<Step>& steps, const Readers& readers);
  void find_readers(const Context& context, const std::vector<Step>& steps, const Readers& readers);
  const BatchNormLink* find(graph::NodeId BatchNormLink::*end, graph::NodeId node) const;

  std::deque<BatchNormLink> links_;  ///< addresses stay
};

}  // namespace lockstep::backend::cuda
