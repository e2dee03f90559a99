# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Reads the file of a site, jobs/slurm/sites/SITE.sh, for lockstep-study and for the jobs:
#   site.sh ROOT SITE GPU settings      prints the settings of the site
#   site.sh ROOT SITE GPU gpus COUNT    prints the options of sbatch for COUNT GPUs per node
#   site.sh ROOT SITE GPU environment   prints the variables of the environment of the site
#   site.sh ROOT SITE GPU run COMMAND   runs a command in this environment
# What is printed is separated by NUL characters, after a mark: modules print other lines.
set -euo pipefail
root=$1 site=$2 gpu=$3 request=$4
shift 4
die() { printf '%s\n' "${*//[[:cntrl:]]/?}" >&2 && exit 1; }
print_all() { printf '%s\0' lockstep-environment "$@"; }

needs_account="" ranks_per_node="" cores_per_rank="" memory_per_core=""
site_sbatch=() gpu_sbatch=()
# shellcheck source=jobs/slurm/sites/generic.sh
source "$root/jobs/slurm/sites/$site.sh"

# Ends with a message if a command of site_environment fails. Scripts that modules and conda execute
# read variables that are not set.
enter_site() {
  trap 'die "jobs/slurm/sites/$site.sh: a command of site_environment failed: $BASH_COMMAND"' ERR
  set -E +u
  site_environment
  set +E -u
  trap - ERR
}

case $request in
  settings)
    print_all "$needs_account" "$ranks_per_node" "$cores_per_rank" "$memory_per_core" \
      "$(type -t site_environment)" "$(type -t gpu_request)" "${site_sbatch[@]}"
    ;;
  gpus) gpu_request "$1" && print_all "${gpu_sbatch[@]}" ;;
  environment)
    enter_site >/dev/null
    print_all
    env -0
    ;;
  run)
    enter_site
    exec "$@"
    ;;
esac
