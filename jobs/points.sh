# shellcheck shell=bash
# Reads the table of a study and composes the commands of its points. jobs/study and the scripts in jobs/slurm source this file
# after jobs/lib.sh.
#
# A table has one line per point with three columns, separated by tabs: name, ranks, and a command of lockstep with its options.
# Lines that start with # and empty lines are ignored.

# Reads the table $1 into the arrays names, ranks_of and arguments_of (one element per point). The further arguments replace options
# of the points when these are started. Exits with an error if a line is invalid.
# shellcheck disable=SC2034  # the scripts that source this file read the arrays
read_points() {
  local table=$1 name ranks arguments batch line=0 bytes LC_ALL=C # letters are those of ASCII
  local -A lines=()
  shift
  names=() ranks_of=() arguments_of=()
  [ -n "$table" ] || die "the table is missing, e.g. jobs/studies/weak.tsv; see --help"
  [[ -f $table && -r $table ]] || die "cannot read $table; a table is a file such as jobs/studies/weak.tsv"
  bytes=$(stat --dereference --format %s -- "$table")
  [ "$bytes" -le 1000000 ] || die "$table has $bytes bytes; the limit of a table is 1000000 bytes"
  [ "$(tr -d '\000' <"$table" | wc -c)" -eq "$bytes" ] || die "$table contains NUL bytes; it must be a text file"
  if grep -q $'\r' "$table"; then
    die "$table has Windows line endings (CRLF); convert it: sed -i 's/\\r\$//' $table"
  fi
  while IFS=$'\t' read -r name ranks arguments || [ -n "$name" ]; do
    line=$((line + 1))
    [[ $name == \#* || -z $name ]] && continue
    [ ${#names[@]} -lt 1000 ] || die "$table has more than 1000 points"
    name=${name//[[:cntrl:]]/?} ranks=${ranks//[[:cntrl:]]/?} arguments=${arguments//[[:cntrl:]]/?} # they are printed
    [ ${#name} -le 100 ] || bad_line "the name has ${#name} characters; the limit is 100"
    [[ $name =~ ^[A-Za-z0-9._-]+$ ]] || bad_line "the name '$name' has characters other than letters, digits, '.', '_' and '-'"
    [[ $ranks =~ ^[1-9][0-9]{0,5}$ ]] || bad_line "the number of ranks is '$ranks'"
    [ ${#arguments} -le 4000 ] || bad_line "the command has ${#arguments} characters; the limit is 4000"
    [[ $arguments =~ ^(allreduce|ladder|layers|stack|train)(\ [A-Za-z0-9._:/@,=+%-]+)*$ ]] ||
      bad_line "'$arguments' is not a command of lockstep that writes a run file (allreduce, ladder, layers, stack, train) with its options"
    [[ ! $arguments =~ \ --(output|seed|checkpoint-dir|resume)[\ =] ]] ||
      bad_line "--${BASH_REMATCH[1]} is given by the program that runs the study"
    [ -z "${lines[$name]:-}" ] || die "$table: two points are named '$name', so their results would have the same file names; rename one of them"
    lines[$name]=1
    merge_options "$arguments" "$@"
    batch=$(option_value --global-batch "${merged[*]}")
    [[ $batch =~ ^[1-9][0-9]{0,8}$ ]] || batch=0 # lockstep reports other values
    ((batch % ranks == 0)) ||
      die "$table: the global batch of '$name', $batch, is not a multiple of its $ranks ranks; use for example $(((batch / ranks + 1) * ranks))"
    names+=("$name")
    ranks_of+=("$ranks")
    arguments_of+=("$arguments")
  done <"$table"
  [ ${#names[@]} -gt 0 ] || die "$table has no points"
}

# Exits because of the current line in `read_points`; $1 says what is wrong with it.
bad_line() {
  die "$table, line $line: $1; the columns, separated by tabs, are name, ranks, and a command such as: train --batch-per-rank 32"
}

# Prints the value of the option $1 in the command line $2; nothing if the option is absent.
option_value() {
  local words word is_value=no
  read -r -a words <<<"$2"
  for word in "${words[@]}"; do
    if [ $is_value = yes ]; then
      printf '%s\n' "$word" && return
    fi
    [[ $word != "$1="* ]] || { printf '%s\n' "${word#*=}" && return; }
    [ "$word" != "$1" ] || is_value=yes
  done
}

# Sets the array `merged`: the words of the command line $1 without the options that the further arguments contain, followed by
# the further arguments. --global-batch and --batch-per-rank replace each other.
merge_options() {
  local words word keep=yes replaced=" "
  read -r -a words <<<"$1"
  shift
  for word in "$@"; do
    case $word in
      --global-batch* | --batch-per-rank*) replaced+="--global-batch --batch-per-rank " ;;
      --*) replaced+="${word%%=*} " ;;
    esac
  done
  merged=()
  for word in "${words[@]}"; do
    if [[ $word == --* ]]; then
      [[ $replaced == *" ${word%%=*} "* ]] && keep=no || keep=yes
    fi
    [ $keep = no ] || merged+=("$word")
  done
  merged+=("$@")
}

# Prints the program: LOCKSTEP_BIN, lockstep of the PATH, or the build in build/cpu; lockstep of the PATH of the container if
# LOCKSTEP_IMAGE is set (jobs/slurm).
# shellcheck disable=SC2154  # jobs/lib.sh sets root
lockstep_program() {
  if [ -n "${LOCKSTEP_IMAGE:-}" ]; then
    printf '%s\n' "${LOCKSTEP_BIN:-lockstep}"
  else
    printf '%s\n' "${LOCKSTEP_BIN:-$(command -v lockstep || echo "$root/build/cpu/bin/lockstep")}"
  fi
}

# Sets the array `command`: the lockstep command of the point with the command line $1, repeat $2 and name $3 in the directory $4,
# which writes the run file $5. The further arguments replace options of the point. Training runs get the seed of the repeat and
# resume from their checkpoints.
# shellcheck disable=SC2034  # the scripts that source this file read the array
point_command() {
  local line=$1 repeat=$2 point=$3-$2 directory=$4 file=$5
  shift 5
  merge_options "$line" "$@"
  command=("$(lockstep_program)" "${merged[@]}")
  if [ "${merged[0]}" = train ]; then
    command+=(--seed "$repeat" --checkpoint-dir "$directory/checkpoints/$point" --resume auto)
  fi
  command+=(--output "$file")
}
