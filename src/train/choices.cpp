#include "lockstep/train/choices.hpp"

#include <array>
#include <vector>

namespace lockstep::train {

namespace {

using backend::BatchNormFusion;
using backend::ConvolutionAlgorithm;
using backend::DeviceKind;
using comm::AllReduceAlgorithm;
using comm::ReducerKind;
using comm::TransportKind;
using core::DataType;
using core::Precision;
using data::Augmentation;
using data::LastBatch;
using optim::Scaling;
using optim::ScheduleKind;

constexpr std::array devices{Choice{"auto", DeviceKind::automatic}, Choice{"cpu", DeviceKind::cpu},
                             Choice{"cuda", DeviceKind::cuda},
                             Choice{"reference", DeviceKind::reference}};
constexpr std::array precisions{Choice{"fp32", Precision::fp32}, Choice{"tf32", Precision::tf32},
                                Choice{"bf16", Precision::bf16}, Choice{"fp16", Precision::fp16}};
constexpr std::array data_types{Choice{"fp32", DataType::float32},
                                Choice{"bf16", DataType::bfloat16},
                                Choice{"fp16", DataType::float16}};
constexpr std::array algorithms{
    Choice{"auto", ConvolutionAlgorithm::automatic}, Choice{"direct", ConvolutionAlgorithm::direct},
    Choice{"winograd", ConvolutionAlgorithm::winograd}, Choice{"amx", ConvolutionAlgorithm::amx}};
constexpr std::array fusions{
    Choice{"auto", BatchNormFusion::automatic}, Choice{"none", BatchNormFusion::none},
    Choice{"sums", BatchNormFusion::sums}, Choice{"prologue", BatchNormFusion::prologue}};
constexpr std::array augmentations{Choice{"crop-flip", Augmentation::crop_flip},
                                   Choice{"none", Augmentation::none}};
constexpr std::array last_batches{Choice{"drop", LastBatch::drop}, Choice{"pad", LastBatch::pad}};
constexpr std::array schedules{
    Choice{"constant", ScheduleKind::constant}, Choice{"step", ScheduleKind::step},
    Choice{"cosine", ScheduleKind::cosine}, Choice{"onecycle", ScheduleKind::onecycle}};
constexpr std::array scalings{Choice{"none", Scaling::none}, Choice{"linear", Scaling::linear},
                              Choice{"sqrt", Scaling::sqrt}};

/// Returns the algorithms of the registry of `comm`, and former names of three of them.
std::vector<Choice<AllReduceAlgorithm>> all_reduce_choices() {
  std::vector<Choice<AllReduceAlgorithm>> table{{"auto", AllReduceAlgorithm::automatic}};
  for (const auto algorithm : comm::all_reduce_algorithms())
    table.push_back({algorithm.name(), algorithm});
  table.push_back({"shared", AllReduceAlgorithm::shared_memory});
  table.push_back({"two-level", AllReduceAlgorithm::hierarchical});
  table.push_back({"pieces", AllReduceAlgorithm::direct});
  return table;
}

std::vector<Choice<ReducerKind>> reducer_choices() {
  std::vector<Choice<ReducerKind>> table;
  for (const auto kind : comm::reducer_kinds()) table.push_back({kind.name(), kind});
  return table;
}

constexpr std::array residencies{Choice{"host", DataResidency::host},
                                 Choice{"device", DataResidency::device}};
constexpr std::array transports{
    Choice{"auto", TransportKind::automatic}, Choice{"mpi", TransportKind::mpi},
    Choice{"nccl", TransportKind::nccl}, Choice{"staged", TransportKind::staged}};
constexpr std::array batch_norm_modes{Choice{"broadcast", BatchNormMode::broadcast},
                                      Choice{"local", BatchNormMode::local},
                                      Choice{"sync", BatchNormMode::sync}};

}  // namespace

std::span<const Choice<DeviceKind>> choices(DeviceKind) { return devices; }
std::span<const Choice<Precision>> choices(Precision) { return precisions; }
std::span<const Choice<DataType>> choices(DataType) { return data_types; }
std::span<const Choice<ConvolutionAlgorithm>> choices(ConvolutionAlgorithm) { return algorithms; }
std::span<const Choice<BatchNormFusion>> choices(BatchNormFusion) { return fusions; }
std::span<const Choice<Augmentation>> choices(Augmentation) { return augmentations; }
std::span<const Choice<LastBatch>> choices(LastBatch) { return last_batches; }
std::span<const Choice<ScheduleKind>> choices(ScheduleKind) { return schedules; }
std::span<const Choice<Scaling>> choices(Scaling) { return scalings; }
std::span<const Choice<ReducerKind>> choices(ReducerKind) {
  static const auto table = reducer_choices();
  return table;
}
std::span<const Choice<AllReduceAlgorithm>> choices(AllReduceAlgorithm) {
  static const auto table = all_reduce_choices();
  return table;
}
std::span<const Choice<TransportKind>> choices(TransportKind) { return transports; }
std::span<const Choice<DataResidency>> choices(DataResidency) { return residencies; }
std::span<const Choice<BatchNormMode>> choices(BatchNormMode) { return batch_norm_modes; }

}  // namespace lockstep::train
