# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Functions that the scripts of this folder share. Source this file from bash with `set -euo pipefail`; do not run it.

# Settings of the user's shell, of exported variables and of BASH_ENV must not change the scripts.
unset CDPATH # with it, `cd` prints the folder that it finds
unset GLOBIGNORE GREP_OPTIONS
unset -f awk cat cd cp find grep ls mkdir mv rm sed sort # functions of the user that extend these commands
IFS=$' \t\n'
set +o noclobber +o posix
shopt -u dotglob expand_aliases failglob nocasematch nullglob
for name in TMPDIR TEMP TMP; do # of another node, or not visible in a container: mpirun and mktemp would fail
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

# Prints an error message in one line, also if it contains a path with control characters, and exits with status 1.
die() {
  printf '%s: %s\n' "${0##*/}" "${*//[[:cntrl:]]/?}" >&2
  exit 1
}

# Prints a command for a shell in one line, with quotes around words that need them.
print_command() {
  local word words=()
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_=:.,/%@+-]+$ ]] || word=$(printf %q "$word")
    words+=("$word")
  done
  echo "${words[*]}"
}

# Exits with an error if no value follows the option $1; call it with the remaining arguments.
needs_value() { [ $# -gt 1 ] || die "$1 needs a value; see --help"; }

# Prints the help text: the comment block at the head of the calling script, without the shebang, the licence and the comment signs.
usage() { awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; }

# Prints the number of processors (hardware threads) that this process may use; nproc itself also follows the variables of OpenMP.
cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

# Prints the number of physical cores of these processors.
physical_cores() {
  local range processor
  sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status | tr ',' '\n' | while read -r range; do
    for ((processor = ${range%-*}; processor <= ${range#*-}; ++processor)); do
      cat "/sys/devices/system/cpu/cpu$processor/topology/thread_siblings_list" 2>/dev/null || echo "$processor"
    done
  done | sort -u | wc -l
}

# Prints the command that starts Python programs that need the modules of the comma-separated list $1, one word per line. Exits with an
# error if no interpreter has the modules.
find_python() { LOCKSTEP_COMMAND=${0##*/} "$root/analysis/run-python" --modules "$1" --find; }

# Writes the report of the run files in the folder $1: tables and figures to $1/report, and the page $1/report.html. Does
# nothing if the folder has no run files. Its notes name the points that do not fit in memory ($1/NAME.memory) and the runs
# that started and are not complete ($1/NAME.started). Returns a status other than 0 if the report fails, also where
# `set -e` has no effect.
write_report() {
  local directory=$1 status=0 too_large failed notes=() report=("$root/analysis/run-python" lockstep_report)
  [ -n "$(find "$directory" -maxdepth 1 -name '*.h5' -print -quit)" ] || return 0
  heading "report"
  too_large=$(points_with "$directory" memory | sed 's/-[0-9]*$//' | uniq | paste -sd ' ')
  failed=$(comm -23 <(points_with "$directory" started | sort) <(points_with "$directory" memory | sort) | sort -V | paste -sd ' ')
  [ -z "$too_large" ] || notes+=(--note "points that do not fit in memory: ${too_large// /, }")
  [ -z "$failed" ] || notes+=(--note "runs that failed or did not finish (their epochs count only if no repeat is complete): ${failed// /, }")
  "${report[@]}" report "$directory" --out "$directory/report" "${notes[@]}" || status=$?
  "${report[@]}" html "$directory" -o "$directory/report.html" "${notes[@]}" || status=$?
  return $status
}

# Prints the names of the points and repeats that have a file with the suffix .$2 in the folder $1, in natural order.
points_with() { find "$1" -maxdepth 1 -name "*.$2" -printf '%f\n' | sed "s/\.$2\$//" | sort -V; }

# Waits until the background process $1 has ended and sets `status` to its exit status. `wait` returns early, with a status above
# 128, if a signal arrives; bash keeps the status of a process that has ended.
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

# Sets the environment variables with which Open MPI starts $1 ranks on this host: as root and without a home directory (in
# containers), and with more ranks than slots. The slots of an allocation are its tasks, not its processors (salloc -n 1 -c 2, Jupyter).
# Ranks that wait yield their core only if there are more ranks than processors. Variables of the user have precedence.
mpi_environment() {
  local ranks=$1 yield=0
  [ -n "${HOME:-}" ] || getent passwd "$(id -u)" >/dev/null || export HOME=/nonexistent # mpirun fails without a value
  if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  export OMPI_MCA_rmaps_base_oversubscribe="${OMPI_MCA_rmaps_base_oversubscribe:-1}"
  export PRTE_MCA_rmaps_default_mapping_policy="${PRTE_MCA_rmaps_default_mapping_policy:-:oversubscribe}" # Open MPI 5
  if [ "$ranks" -gt "$(cores)" ]; then
    yield=1
  elif [ "$ranks" -gt "$(physical_cores)" ]; then # as mpirun --use-hwthread-cpus
    export OMPI_MCA_hwloc_base_use_hwthreads_as_cpus="${OMPI_MCA_hwloc_base_use_hwthreads_as_cpus:-1}"
  fi
  export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-$yield}"
  if [ -e /.dockerenv ] || [ -e /run/.containerenv ] || [ -n "${APPTAINER_CONTAINER:-}" ]; then
    # In most containers, a process may not read the memory of another process, and Open MPI prints a warning for every
    # attempt. The value of the user has precedence.
    export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  fi
}
