#!/bin/bash
# cluster_test.sh PROGRAM: runs an MPI test program over 2, 3 and 4 hosts, so that messages take the
# network instead of shared memory. LOCKSTEP_CLUSTER names a script that has these commands:
#   up N RATE           N hosts, joined by links of RATE ("1gbit"); may be called again
#   run RANKS COMMAND   mpirun COMMAND over the hosts
#   down                removes the hosts
# Without it, or without the root rights that it needs, the test is skipped (status 77), saying why.
set -euo pipefail
program=$(realpath "$1")
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[ -n "${LOCKSTEP_CLUSTER:-}" ] || skip "LOCKSTEP_CLUSTER is not set; set it to a script that makes a cluster of hosts"
[ -x "$LOCKSTEP_CLUSTER" ] || skip "LOCKSTEP_CLUSTER=$LOCKSTEP_CLUSTER is not an executable script"
[ "$(id -u)" -eq 0 ] || skip "making hosts needs root; run as root"

trap '"$LOCKSTEP_CLUSTER" down' EXIT
for hosts in 2 3 4; do
  "$LOCKSTEP_CLUSTER" up "$hosts" 1gbit
  echo "== $(basename "$program") over $hosts hosts"
  "$LOCKSTEP_CLUSTER" run "$hosts" "$program"
done
