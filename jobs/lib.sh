# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Functions that the scripts of this folder share. Source this file from bash with
# `set -euo pipefail`; do not run it.

# Settings of the user's shell, of exported variables and of BASH_ENV must not change the scripts.
unset CDPATH # with it, `cd` prints the folder that it finds
unset GLOBIGNORE GREP_OPTIONS
# functions of the user that extend these commands
unset -f awk cat cd cp find grep ls mkdir mv rm sed sort
IFS=$' \t\n'
set +o noclobber +o posix
shopt -u dotglob expand_aliases failglob nocasematch nullglob
# Folders of another node, or not visible in a container: mpirun and mktemp would fail.
for name in TMPDIR TEMP TMP; do
  [ -w "${!name:-}" ] || unset "$name"
done
awk() { LC_ALL=C command awk "$@"; } # with a point in decimal numbers

# shellcheck disable=SC2034  # the scripts that source this file use it
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
  echo "${0##*/}: needs bash 4.4 or newer, not $BASH_VERSION" >&2
  exit 1
fi

# Prints the heading of a step.
heading() { printf '\n== %s\n' "$*"; }

# Prints an error message in one line, also if it contains a path with control characters, and exits
# with status 1.
die() {
  printf '%s: %s\n' "${0##*/}" "${*//[[:cntrl:]]/?}" >&2
  exit 1
}

# Exits with an error if no value follows the option $1; call it with the remaining arguments.
needs_value() { [ $# -gt 1 ] || die "$1 needs a value; see --help"; }

# Prints the help text: the comment block at the head of the calling script, without the shebang,
# the licence and the comment signs.
usage() { awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; }

# Prints the number of processors (hardware threads) that this process may use; nproc itself also
# follows the variables of OpenMP.
cores() {
  env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN
}

# Waits until the background process $1 has ended and sets `status` to its exit status. `wait`
# returns early, with a status above 128, if a signal arrives; bash keeps the status of a process
# that has ended.
# shellcheck disable=SC2034  # the scripts that source this file read status
wait_for_child() {
  local child=$1 running=yes
  while [ $running = yes ]; do
    kill -0 "$child" 2>/dev/null || running=no
    status=0
    wait "$child" || status=$?
    [ $status -gt 128 ] || return 0
  done
}

# Sets the environment variables with which Open MPI starts $1 ranks on this host (lockstep-study).
mpi_environment() {
  local variable
  while IFS= read -r variable; do
    export "${variable?}"
  done < <("$root/analysis/run-python" --modules sys lockstep_study environment "$1")
}
