#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cluster_test.sh PROGRAM: runs an MPI test program on 2, 3 and 4 emulated hosts (tests/cluster/cluster), so that messages
# use the network instead of shared memory. Skips the test (status 77) unless LOCKSTEP_REQUIRE_CLUSTER=1.
set -euo pipefail
program=$(realpath "$1")
cluster=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../cluster/cluster")
export LOCKSTEP_CLUSTER_NAME=lockstep-test-$$ # independent of other clusters on this machine

if [ "${LOCKSTEP_REQUIRE_CLUSTER:-0}" != 1 ]; then
  echo "not requested: LOCKSTEP_REQUIRE_CLUSTER is not 1"
  exit 77
fi
"$cluster" check

trap '"$cluster" down' EXIT
for hosts in 2 3 4; do
  "$cluster" up "$hosts" 1gbit
  echo "== $(basename "$program") on $hosts hosts"
  "$cluster" run "$hosts" "$program"
done
