#include <algorithm>
#include <map>
#include <utility>

#include "kernel_time.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/train/prediction.hpp"

namespace lockstep::train {

namespace {

void add(Interval& sum, const Interval& value) {
  sum.low += value.low;
  sum.high += value.high;
}

PredictedRow overhead(std::string what, int count, const Interval& each) {
  PredictedRow row{.what = std::move(what), .phase = "graph", .count = count};
  row.seconds = {count * each.low, count * each.high};
  return row;
}

}  // namespace

StepPrediction predict_step(const GpuModel& gpu, const Config& config, const graph::Graph& graph,
                            std::span<const backend::OperationChoice> choices, int ranks) {
  const comm::BucketPartition buckets =
      comm::partition_gradients(graph.parameter_elements(), ranks,
                                {.kind = config.reducer, .bucket_bytes = config.bucket_bytes()});
  const StepKernels kernels = list_kernels(gpu, config, graph, choices, buckets);
  std::map<std::pair<std::string, std::string>, PredictedRow> rows;
  for (const auto* const part : {&kernels.compute, &kernels.updates}) {
    for (const KernelWork& work : *part) {
      PredictedRow& row = rows[{work.what, work.phase}];
      row.what = work.what;
      row.phase = work.phase;
      row.count += 1;
      row.kernels += work.kernels;
      row.flops += work.flops;
      add(row.bytes, work.bytes);
      row.bound_seconds += bound_of(work, gpu);
      add(row.seconds, time_of(work, gpu));
    }
  }
  StepPrediction step;
  for (auto& [key, row] : rows) step.rows.push_back(std::move(row));
  step.rows.push_back(overhead("timestamps", kernels.timestamps, gpu.timestamp));
  step.rows.push_back(overhead("gap between launches of the graph", 1, gpu.graph_gap));
  for (const PredictedRow& row : step.rows) {
    step.bound_seconds += row.bound_seconds;
    add(step.seconds, row.seconds);
  }
  std::ranges::stable_sort(step.rows, [](const PredictedRow& a, const PredictedRow& b) {
    return a.seconds.middle() > b.seconds.middle();
  });
  return step;
}

}  // namespace lockstep::train
