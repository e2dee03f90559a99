#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::backend::cpu {

enum class Direction { forward, backward_data, backward_weights };
std::string_view name(Direction direction);  ///< "forward", "backward data", "backward weights"

/// One direction of a convolution, ready to run again
/// and again on the maps and weights it was made for. The two maps are called source (on the side
/// of the convolution's input) and destination, gradients included.
class ConvolutionDirection {
 public:
  virtual ~ConvolutionDirection() = default;

  virtual const std::string& implementation() const = 0;  ///< what a person is told
  virtual double arithmetic() const { return 1; }  ///< multiplications, relative to the direct form
  virtual std::size_t scratch_bytes() const = 0;
  /// Called when the maps have their memory. `flat`: the model's plain KCRS weights, or where their
  /// gradient goes. `bias`: the bias or where its gradient goes; null where there is none.
  virtual void bind(std::byte* scratch, float* flat, float* bias) = 0;
  virtual void run() = 0;
};

/// Hands out consecutive aligned parts of scratch memory.
class Carver {
 public:
  explicit Carver(std::byte* at) : at_(at) {}
  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::byte* take(std::size_t bytes) {
    std::byte* const taken = at_;
    at_ += aligned(bytes);
    return taken;
  }
  float* take_floats(std::size_t count) {
    return reinterpret_cast<float*>(take(count * sizeof(float)));
  }

 private:
  std::byte* at_;
};

}  // namespace lockstep::backend::cpu
