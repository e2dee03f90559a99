// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace lockstep::comm {

/// Bytes that a rank exchanges with other ranks in messages that this program posts, counted where
/// they are posted. Messages between ranks of one host count as well; reads and writes of shared
/// memory do not. NaN if a library selects the messages (MPI_Iallreduce, collectives of NCCL).
struct Traffic {
  double sent_bytes = 0;
  double received_bytes = 0;

  Traffic& operator+=(const Traffic& other) {
    sent_bytes += other.sent_bytes;
    received_bytes += other.received_bytes;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};

/// Returns the traffic of messages that a library selects.
Traffic unknown_traffic();

}  // namespace lockstep::comm
