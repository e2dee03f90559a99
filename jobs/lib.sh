# shellcheck shell=bash
# What the scripts of this folder share; sourced, not run. Expects bash with `set -euo pipefail`.

# shellcheck disable=SC2034  # used by the scripts that source this
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# usage: the comment block at the head of the calling script, without the shebang and the marks.
usage() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; }

cores() { nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

# The first python3 that can import all the named modules.
find_python() {
  local candidate modules=$1
  for candidate in "${LOCKSTEP_PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$candidate" ] && "$candidate" -c "import $modules" 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  die "no python3 with $modules; run jobs/setup, or name one in LOCKSTEP_PYTHON"
}

# Lets Open MPI start where it refuses by default: as root (containers), and with more ranks than cores. Values that
# are already set stay.
mpi_environment() {
  local ranks=$1
  if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  if [ "$ranks" -gt "$(cores)" ]; then # ranks that wait give up their core
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  fi
  if [ -e /.dockerenv ] || [ -e /run/.containerenv ] || [ -n "${APPTAINER_CONTAINER:-}" ]; then
    # Containers usually may not read another process's memory, and Open MPI complains at each try.
    export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  fi
}
