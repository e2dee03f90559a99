// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"

// Typed messages between ranks of the same program. Numbers, and structs of numbers, are sent as
// their bytes. Any other struct needs a static member function that lists its members:
//
//   static auto fields(auto& self) { return std::tie(self.host, self.addresses); }
//
// The encoding uses no JSON: nlohmann/json allocates memory in destructors and ends the process if
// that fails, and JSON has neither infinities nor NaN.
namespace lockstep::comm {

/// Values that are sent as their bytes. A pointer or a view has no meaning on another rank.
template <class T>
concept PlainValue =
    std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::ranges::view<T>;

/// Strings and vectors.
template <class T>
concept Sequence = std::ranges::sized_range<T> && requires(T& values) {
  values.resize(0);
};

/// Strings and vectors whose elements are sent as their bytes.
template <class T>
concept PlainSequence =
    Sequence<T> && std::ranges::contiguous_range<T> && PlainValue<std::ranges::range_value_t<T>>;

/// Converts to the type of any member of a struct.
struct AnyMember {
  template <class T>
  operator T() const;
};

/// Returns the number of members of a struct.
template <class T, class... Members>
consteval std::size_t member_count() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; }) {
    return member_count<T, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

/// Structs with a function `fields`, which must list all members.
template <class T>
concept Record = requires(T& value) {
  requires std::tuple_size_v<decltype(T::fields(value))>
  == member_count<T>();
};

/// Appends the encoding of `value` to `message`.
template <class T>
void encode(const T& value, std::string& message) {
  const auto append = [&](std::span<const std::byte> bytes) {
    message.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto encode_each = [&](const auto&... part) { (encode(part, message), ...); };
  if constexpr (PlainValue<T>) {
    append(std::as_bytes(std::span(&value, 1)));
  } else if constexpr (PlainSequence<T>) {
    encode(value.size(), message);
    append(std::as_bytes(std::span(value)));
  } else if constexpr (Sequence<T>) {
    encode(value.size(), message);
    for (const auto& element : value) encode(element, message);
  } else if constexpr (requires { value.has_value(); }) {  // std::optional
    encode(value.has_value(), message);
    if (value) encode(*value, message);
  } else if constexpr (Record<T>) {
    std::apply(encode_each, T::fields(value));
  } else {  // std::pair, std::tuple, std::array
    std::apply(encode_each, value);
  }
}

/// Reads `value` from the start of `message` and removes its encoding. Throws `Error` (internal) if
/// the message ends before.
template <class T>
void decode(std::string_view& message, T& value) {
  const auto take = [&](std::span<std::byte> bytes) {
    core::check(message.size() >= bytes.size(), "a message between ranks is complete");
    message.copy(reinterpret_cast<char*>(bytes.data()), bytes.size());
    message.remove_prefix(bytes.size());
  };
  const auto decode_each = [&](auto&... part) { (decode(message, part), ...); };
  if constexpr (PlainValue<T>) {
    take(std::as_writable_bytes(std::span(&value, 1)));
  } else if constexpr (Sequence<T>) {
    auto count = value.size();
    decode(message, count);
    // An element takes at least one byte.
    core::check(count <= message.size(), "a message between ranks is complete");
    value.resize(count);
    if constexpr (PlainSequence<T>) {
      take(std::as_writable_bytes(std::span(value)));
    } else {
      for (auto& element : value) decode(message, element);
    }
  } else if constexpr (requires { value.has_value(); }) {
    bool has_value = false;
    decode(message, has_value);
    if (has_value)
      decode(message, value.emplace());
    else
      value.reset();
  } else if constexpr (Record<T>) {
    std::apply(decode_each, T::fields(value));
  } else {
    std::apply(decode_each, value);
  }
}

/// Returns the message that contains `value`.
template <class T>
std::string message_of(const T& value) {
  std::string message;
  encode(value, message);
  return message;
}

/// Returns the value that `message` contains.
template <class T>
T value_of(std::string_view message) {
  T value{};
  decode(message, value);
  core::check(message.empty(), "a message between ranks has the size of its value");
  return value;
}

/// Return the maximum and the minimum over the ranks of a number that float64 represents exactly.
/// Collective: all ranks must call this.
template <class T>
T maximum(Communicator& communicator, T value) {
  auto number = static_cast<double>(value);
  communicator.maximum(std::span(&number, 1));
  return static_cast<T>(number);
}
template <class T>
T minimum(Communicator& communicator, T value) {
  return static_cast<T>(-maximum(communicator, -static_cast<double>(value)));
}

/// Returns the value of every rank, in rank order, on all ranks. Collective: all ranks must call
/// this.
template <class T>
std::vector<T> all_gather(Communicator& communicator, const T& own) {
  std::vector<T> values;
  for (const std::string& message : communicator.all_gather(message_of(own)))
    values.push_back(value_of<T>(message));
  return values;
}

/// Returns the arrays of all ranks, which must have the same length, one after the other in rank
/// order, on rank 0; empty on the other ranks. Collective: all ranks must call this.
template <PlainValue T>
std::vector<std::remove_const_t<T>> gather_arrays(Communicator& communicator, std::span<T> own) {
  const bool is_root = communicator.rank() == 0;
  std::vector<std::remove_const_t<T>> all(
      is_root ? own.size() * static_cast<std::size_t>(communicator.size()) : 0);
  communicator.gather(std::as_bytes(own), std::as_writable_bytes(std::span(all)));
  return all;
}

/// Returns the value of every rank, in rank order, on rank 0; empty on the other ranks. Rank 0
/// receives encoded values one after the other, so that it holds only one message. Collective: all
/// ranks must call this.
template <class T>
std::vector<T> gather(Communicator& communicator, const T& own) {
  if constexpr (PlainValue<T>) {
    return gather_arrays(communicator, std::span(&own, 1));
  } else {
    std::string message = message_of(own);
    const std::vector<std::size_t> sizes = gather(communicator, message.size());
    if (communicator.rank() != 0) {
      communicator.send(std::as_bytes(std::span(message)), 0);
      return {};
    }
    std::vector<T> values{own};
    for (int rank = 1; rank < communicator.size(); ++rank) {
      message.resize(sizes[static_cast<std::size_t>(rank)]);
      communicator.receive(std::as_writable_bytes(std::span(message)), rank);
      values.push_back(value_of<T>(message));
    }
    return values;
  }
}

/// Copies `value` of rank 0 to all ranks. Collective: all ranks must call this.
template <class T>
void broadcast(Communicator& communicator, T& value) {
  if constexpr (PlainValue<T>) {
    communicator.broadcast(std::as_writable_bytes(std::span(&value, 1)));
  } else {
    const bool is_root = communicator.rank() == 0;
    std::string message = is_root ? message_of(value) : "";
    std::size_t size = message.size();
    broadcast(communicator, size);
    message.resize(size);
    communicator.broadcast(std::as_writable_bytes(std::span(message)));
    if (!is_root) value = value_of<T>(message);
  }
}

}  // namespace lockstep::comm
