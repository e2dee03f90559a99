#pragma once

#include <span>
#include <string_view>

#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// A permitted value of an option and its name on the command line. Each option has one table of
/// them, which is used for parsing, for messages, for `--help` and for the run file. If two names
/// have the same value, the first name is written.
template <class Enum>
struct Choice {
  std::string_view name;
  Enum value;
};

/// Each of these functions returns the table of an option. The argument only selects the overload.
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
std::span<const Choice<comm::AllReduceAlgorithm>> choices(comm::AllReduceAlgorithm);
std::span<const Choice<comm::TransportKind>> choices(comm::TransportKind);
std::span<const Choice<DataResidency>> choices(DataResidency);
std::span<const Choice<BatchNormMode>> choices(BatchNormMode);

/// Returns the name of `value` in the table of its option; "?" if the table does not contain it.
template <class Enum>
std::string_view choice_name(Enum value) {
  for (const auto& choice : choices(value)) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

}  // namespace lockstep::train
