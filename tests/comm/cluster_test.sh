#!/bin/bash
# cluster_test.sh PROGRAM: runs an MPI test program on 2, 3 and 4 emulated hosts (tests/cluster/cluster), so that messages
# use the network instead of shared memory. If this machine cannot emulate hosts, the test is skipped (status 77) and says
# why; with LOCKSTEP_REQUIRE_CLUSTER=1 it fails instead.
set -euo pipefail
program=$(realpath "$1")
cluster=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../cluster/cluster")
export LOCKSTEP_CLUSTER_NAME=lockstep-test-$$ # independent of other clusters on this machine

if ! reason=$("$cluster" check 2>&1); then
  if [ "${LOCKSTEP_REQUIRE_CLUSTER:-0}" = 1 ]; then
    echo "FAILED: LOCKSTEP_REQUIRE_CLUSTER=1, but $reason"
    exit 1
  fi
  echo "SKIPPED: $reason"
  exit 77
fi

trap '"$cluster" down' EXIT
for hosts in 2 3 4; do
  "$cluster" up "$hosts" 1gbit
  echo "== $(basename "$program") on $hosts hosts"
  "$cluster" run "$hosts" "$program"
done
