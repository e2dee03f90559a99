# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Reads the file of a site. The scripts of this folder source this file after jobs/lib.sh.

unset "${!SQUEUE_@}" # filters of the user for squeue would hide jobs

# Reads the settings of the site $1 for GPUs of the type $2 (empty: no GPUs) from jobs/slurm/sites/$1.sh; sites/generic.sh
# describes them. Sets `site` and `gpu`. Exits with one line if the site is unknown or a setting is missing or invalid.
# shellcheck disable=SC2034,SC2154  # the scripts read the variables; jobs/lib.sh sets root
read_site() {
  local file=$root/jobs/slurm/sites/$1.sh mistake
  site=$1 gpu=$2
  [[ $site =~ ^[A-Za-z0-9_-]+$ && -r $file ]] ||
    die "unknown site '$site'; the sites are: $(basename -s .sh -a "$root"/jobs/slurm/sites/*.sh | paste -sd ' ')"
  [[ $gpu =~ ^[A-Za-z0-9_-]*$ ]] || die "--gpu must be a type of GPU such as a100, not '$gpu'"
  refuse_old_gpu
  mistake=$(bash -n "$file" 2>&1 | head -n 1) || true
  [ -z "$mistake" ] || die "the file of the site is invalid: $mistake"
  needs_account="" ranks_per_node="" cores_per_rank="" memory_per_core="" site_sbatch=() gpu_sbatch=()
  unset -f gpu_request site_environment
  # shellcheck source=jobs/slurm/sites/generic.sh
  source "$file"
  [[ $needs_account =~ ^(yes|no)$ ]] || bad_setting needs_account "$needs_account" "yes or no"
  [[ $ranks_per_node =~ ^[1-9][0-9]{0,3}$ ]] || bad_setting ranks_per_node "$ranks_per_node" "a positive integer"
  [[ $cores_per_rank =~ ^[1-9][0-9]{0,3}$ ]] || bad_setting cores_per_rank "$cores_per_rank" "a positive integer"
  [[ $memory_per_core =~ ^[1-9][0-9]*[KMGT]?$ ]] || bad_setting memory_per_core "$memory_per_core" "an amount such as 4G"
  [ "$(type -t site_environment)" = function ] || bad_setting site_environment "" "a function"
  [ "$(type -t gpu_request)" = function ] || [ -z "$gpu" ] || bad_setting gpu_request "" "a function"
}

# Exits with one line if the program would refuse the GPU in every task (`check_supported` of src/backend/cuda/device).
refuse_old_gpu() {
  case -${gpu,,} in # Kepler, Maxwell, Pascal and Volta
    *v100* | *[_-][kmp][0-9]* | *[_-]gp100* | *titan[xv]* | *titan[_-][xv]* | *gtx*9[0-9]0* | *gtx*10[0-9]0* | *[_-]10[678]0*)
      die "--gpu $gpu: CUDA 13 and cuDNN 9 have no code for it; use a GPU of compute capability 7.5 (Turing) or newer" ;;
  esac
}

# Prepares the environment for lockstep by `site_environment`. Scripts that modules and conda execute read variables that are not set.
enter_site() {
  local status
  set +u
  site_environment
  status=$?
  set -u
  return $status
}

# Prints the number by which the names of the jobs of a study contain the folder of its results, $1.
folder_sum() { cksum <<<"$1" | cut -d ' ' -f 1; }

bad_setting() { # NAME VALUE NEEDED
  die "jobs/slurm/sites/$site.sh: $1 is '$2', but must be $3; see jobs/slurm/sites/generic.sh"
}
