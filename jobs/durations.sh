# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Estimates how long the points of a study take, from timed steps on this machine. jobs/study and jobs/slurm/submit source this file after
# jobs/points.sh, for --dry-run.

declare -A timed=() # command of timed steps -> the values that it printed

# Sets `values`: what a training with the time-relevant options among the words of the command line `merged` prints after one timed step of
# one rank with $2 threads and a batch of $1, as lines NAME=VALUE; empty if the program cannot run it here.
# shellcheck disable=SC2154  # jobs/points.sh sets the variables
time_step() {
  local word keep=yes words=() command
  for word in "${merged[@]:1}"; do
    if [[ $word == --* ]]; then
      [[ " --config --test-samples $time_options" == *" ${word%%=*} "* ]] && keep=yes || keep=no
      case ${word%%=*} in --batch-per-rank | --global-batch | --threads | --micro-batches | --profile) keep=no ;; esac
    fi
    [ $keep = no ] || words+=("$word")
  done
  command=("$(lockstep_program)" train "${words[@]}" --batch-per-rank "$1" --threads "$2" --steps 2 --evaluate-every never --json)
  if [ -z "${timed[${command[*]}]+set}" ]; then
    timed[${command[*]}]=$(timeout 30 "${container[@]}" "${command[@]}" 2>/dev/null |
      sed -nE 's/^ *"(images_per_second|train-samples|test-samples)": "?([0-9.e+]+)"?,?$/\1=\2/p') || true
  fi
  values=${timed[${command[*]}]}
}

# Sets `seconds` to the estimated duration of the point with the index $1; empty if it is unknown, because the point is no training, or
# because the program or its device does not exist here. $2 processors are shared by the ranks; 0: each rank has its own, for $3 threads.
# The further arguments replace options of the point. The estimate includes neither communication nor the start of the program.
# shellcheck disable=SC2034,SC2154  # jobs/points.sh sets the variables; the scripts that source this file read `seconds`
estimate_seconds() {
  local index=$1 processors=$2 threads=$3 experiment merged dropped ranks=${ranks_of[$1]} values name value
  local -A option=()
  shift 3
  seconds=""
  [ "${arguments_of[index]%% *}" = train ] && read_options train || return 0
  experiment=$(point_experiment "$index" 1 "" "$@" 2>/dev/null) || return 0
  while IFS='=' read -r name value; do option[$name]=$value; done <<<"$experiment"
  [ "${option[pipeline-stages]:-1}" = 1 ] || return 0
  [ "${option[threads]:-0}" = 0 ] || threads=${option[threads]}
  [ "$threads" -gt 0 ] || threads=$((processors > ranks ? processors / ranks : 1))
  merge_options "${arguments_of[index]}" "$@"
  time_step $((option[batch-per-rank] < 32 ? option[batch-per-rank] : 32)) "$threads"
  [[ $values == *images_per_second=* ]] || return 0
  seconds=$(awk -F = -v ranks="$ranks" -v threads="$threads" -v processors="$processors" '
    { is[$1] = $2 }
    END {
      images = is["steps"] > 0 ? is["steps"] * is["global-batch"] : is["epochs"] * is["train-samples"]
      every = is["evaluate-every"]
      evaluations = every == "never" ? 0 : every == 0 || is["steps"] > 0 ? 1 : int(is["epochs"] / every)
      images += evaluations * is["test-samples"] / 3 # only the forward pass
      slowdown = processors > 0 && ranks * threads > processors ? ranks * threads / processors : 1
      printf "%.0f", images / ranks / is["images_per_second"] * slowdown + 0.5
    }' <<<"$experiment"$'\n'"$values")
}

# Prints a duration of $1 s as a text; "duration unknown" without a number.
duration() {
  awk -v s="${1:--1}" 'BEGIN {
    if (s < 0) print "duration unknown"
    else if (s < 90) printf "about %d s\n", s
    else if (s < 5400) printf "about %.0f min\n", s / 60
    else printf "about %.1f h\n", s / 3600
  }'
}
