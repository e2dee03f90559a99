#include "traffic.hpp"

namespace lockstep::backend::cuda {

MapTraffic forward_traffic(const BatchNormSetting& setting, PassStructure structure) {
  const double residual = setting.has_residual ? 1 : 0;
  switch (structure) {
    case PassStructure::one_kernel:
      return {.read = 1 + residual, .written = 1, .read_again = 1, .held = 1, .kernels = 1};
    case PassStructure::own_kernels:
      return {.read = 1 + residual, .written = 1, .read_again = 1, .held = 1, .kernels = 3};
    case PassStructure::graphs:
      return {.read = 1 + residual, .written = 1, .read_again = 1, .held = 1, .kernels = 4};
    case PassStructure::given_sums:
      return {.read = 1 + residual, .written = 1, .read_again = 0, .held = 0, .kernels = 2};
    case PassStructure::given_sums_unwritten: break;
  }
  return {.read = 0, .written = 0, .read_again = 0, .held = 0, .kernels = 1};
}

MapTraffic backward_traffic(const BatchNormSetting& setting, PassStructure structure,
                            OutputRead output) {
  constexpr double x = 1;
  const double incoming = static_cast<double>(setting.output_gradients);
  const double mask = output == OutputRead::needed ? 1 : 0;
  const double masked = setting.wants_residual_gradient ? 1 : 0;
  const double dx = setting.wants_input_gradient ? 1 : 0;
  MapTraffic traffic{.read = incoming + mask + x, .written = dx + masked};
  if (dx > 0) {
    // The first traversal stores the summed and masked gradient if the residual needs it.
    traffic.read_again = masked > 0 ? masked + x : incoming + mask + x;
    // A single kernel holds x and the summed, masked gradient; a cache holds what is read again.
    traffic.held = structure == PassStructure::one_kernel ? 2 : traffic.read_again;
  }
  if (structure == PassStructure::own_kernels) traffic.kernels = dx > 0 ? 3 : 2;
  if (structure == PassStructure::graphs) traffic.kernels = 4;
  return traffic;
}

}  // namespace lockstep::backend::cuda
