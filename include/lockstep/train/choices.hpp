#pragma once

#include <span>
#include <string_view>

#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// The values that an option may take: name on the command line and meaning. One table per option,
/// used for parsing, for messages, for `--help` and for the run file. Where two names mean the
/// same, the first is the one written.
template <class Enum>
struct Choice {
  std::string_view name;
  Enum value;
};

std::span<const Choice<backend::DeviceKind>> choices(backend::DeviceKind);
std::span<const Choice<core::Precision>> choices(core::Precision);
std::span<const Choice<core::DataType>> choices(core::DataType);
std::span<const Choice<backend::ConvolutionAlgorithm>> choices(backend::ConvolutionAlgorithm);
std::span<const Choice<backend::BatchNormFusion>> choices(backend::BatchNormFusion);
std::span<const Choice<data::Augmentation>> choices(data::Augmentation);
std::span<const Choice<data::LastBatch>> choices(data::LastBatch);
std::span<const Choice<optim::ScheduleKind>> choices(optim::ScheduleKind);
std::span<const Choice<optim::Scaling>> choices(optim::Scaling);
std::span<const Choice<comm::ReducerKind>> choices(comm::ReducerKind);
std::span<const Choice<comm::AllReduceWay>> choices(comm::AllReduceWay);
std::span<const Choice<comm::TransportKind>> choices(comm::TransportKind);
std::span<const Choice<DataResidency>> choices(DataResidency);
std::span<const Choice<BatchNormMode>> choices(BatchNormMode);

/// The name of a value in its option's table.
template <class Enum>
std::string_view choice_name(Enum value) {
  for (const auto& choice : choices(value)) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

}  // namespace lockstep::train
