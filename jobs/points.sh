# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Reads the table of a study and composes the commands of its points. jobs/study and the scripts in jobs/slurm source this file
# after jobs/lib.sh.
#
# A table has one line per point with three columns, separated by tabs or blanks: name, ranks, and a command of lockstep with its
# options, or a Python program of this repository that records its run and takes --output and --seed, with its options. Lines that start with # and empty lines are ignored, also what spreadsheets add: a byte-order mark, Windows line endings,
# quotation marks around a column, tabs at the end.

readonly writers="allreduce ladder layers stack train" # the commands of lockstep that write a run file

# Reads the table $1 into the arrays names, ranks_of and arguments_of (one element per point). Exits with an error if a line is invalid.
# shellcheck disable=SC2034,SC2154  # the scripts that source this file read the arrays; jobs/lib.sh sets root
read_points() {
  local table=$1 name ranks arguments line=0 LC_ALL=C # letters are those of ASCII
  local command="^(${writers// /|}|[^ -][^ ]*\\.py)( +[^ ]+)*\$"
  local -A lines=()
  names=() ranks_of=() arguments_of=()
  check_table "$table"
  while read -r name ranks arguments || [ -n "$name" ]; do
    line=$((line + 1))
    [[ $name == \#* || -z $name ]] && continue
    [ ${#names[@]} -lt 1000 ] || die "$table has more than 1000 points"
    refuse_characters "$name $ranks $arguments"
    [ ${#name} -le 100 ] || bad_line "the name has ${#name} characters; the limit is 100"
    [[ $name =~ ^[A-Za-z0-9._-]+$ ]] || bad_line "the name '$name' has characters other than letters, digits, '.', '_' and '-'"
    [[ $ranks =~ ^[1-9][0-9]{0,5}$ ]] || bad_line "the number of ranks is '$ranks'"
    [ ${#arguments} -le 4000 ] || bad_line "the command has ${#arguments} characters; the limit is 4000"
    [[ $arguments =~ $command ]] ||
      bad_line "'$arguments' is not a command of lockstep that writes a run file (${writers// /, }), or a Python program (*.py), with its options"
    [[ ${arguments%% *} != *.py || -f $root/${arguments%% *} ]] || bad_line "there is no program ${arguments%% *} in $root"
    [[ ! $arguments =~ \ --(output|seed|checkpoint-dir|resume)[\ =] ]] ||
      bad_line "--${BASH_REMATCH[1]} is given by the program that runs the study"
    [ -z "${lines[$name]:-}" ] || die "$table: two points are named '$name', so their results would have the same file names; rename one of them"
    lines[$name]=1
    names+=("$name")
    ranks_of+=("$ranks")
    arguments_of+=("$arguments")
  done < <(LC_ALL=C sed -E -e $'1s/^\xef\xbb\xbf//' -e 's/\r$//; s/\r/\n/g; s/(^|\t|\n)"([^"\t]*)"/\1\2/g' -- "$table")
  [ ${#names[@]} -gt 0 ] || die "$table has no points"
}

# Checks the points of the table $1, which `read_points` has read, with the further arguments, which replace options when the points are
# started. Exits with an error if a global batch is not a multiple of the ranks, or if no point uses an option.
check_points() {
  local table=$1 index ranks batch option unused=""
  shift
  for index in "${!names[@]}"; do
    merge_options "${arguments_of[index]}" "$@"
    [ "$index" -gt 0 ] || unused=$dropped
    for option in $unused; do
      [[ $dropped == *" $option "* ]] || unused=${unused/ $option / }
    done
    ranks=${ranks_of[index]}
    batch=$(option_value --global-batch "${merged[*]}")
    [[ $batch =~ ^[1-9][0-9]{0,8}$ ]] || batch=0 # lockstep reports other values
    ((batch % ranks == 0)) ||
      die "$table: the global batch of '${names[index]}', $batch, is not a multiple of its $ranks ranks; use for example $(((batch / ranks + 1) * ranks))"
  done
  read -r option _ <<<"$unused"
  [ -z "$option" ] || die "no point of $table uses $option; remove it"
}

# Exits with an error if the file $1 is not a text in which `read_points` can search for points.
check_table() {
  local table=$1 bytes what="" path
  [ -n "$table" ] || die "the table is missing, e.g. jobs/studies/weak.tsv; see --help"
  [[ $table != *\\* || -e $table ]] || die "cannot read $table; write its path with '/', for example /mnt/c/Users for C:\\Users"
  [[ -e $table || $table == /* || ! -f $root/$table ]] || die "cannot read $table in $PWD; use $(printf %q "$root/$table")"
  [[ -f $table && -r $table ]] || die "cannot read $table; a table is a file such as jobs/studies/weak.tsv"
  bytes=$(stat --dereference --format %s -- "$table")
  path=$(printf %q "$table")
  case $(head -c 4 -- "$table" | od -An -tx1 | tr -d ' \n') in
    504b0304) what="a ZIP archive, for example a workbook (.xlsx, .ods)" ;;
    d0cf11e0) what="a workbook or a document of Microsoft Office" ;;
    89484446) what="an HDF5 file" ;;
    25504446) what="a PDF document" ;;
    7b5c7274) what="an RTF document" ;;
    1f8b*) die "$table is a gzip archive; unpack it: gunzip <$path >$path.txt" ;;
    fffe* | feff*) die "$table is encoded in UTF-16; convert it: iconv -f UTF-16 -t UTF-8 $path >$path.txt" ;;
  esac
  [ -z "$what" ] || die "$table is $what; a table is plain text: save the sheet as text separated by tabs"
  [ "$bytes" -le 1000000 ] || die "$table has $bytes bytes; the limit of a table is 1000000 bytes"
  [ "$(tr -d '\000' <"$table" | wc -c)" -eq "$bytes" ] || die "$table contains NUL bytes; it must be a text file"
}

# Exits because of the current line in `read_points` if its text $1 contains a character that no point contains. Call it with
# LC_ALL=C.
refuse_characters() {
  local odd=${1//[A-Za-z0-9._:\/@,=+% -]/}
  case $odd in
    "") ;;
    $'\xc2'[$'\x80'-$'\xa0'$'\xad']* | $'\xe2\x80'[$'\x80'-$'\x8f'$'\xa8'-$'\xaf']* | $'\xe2\x81'[$'\x9f'-$'\xaf']* | $'\xe3\x80\x80'* | $'\xef\xbb\xbf'*)
      bad_line "it contains a no-break space or another invisible character; replace it by a blank" ;;
    $'\xe2\x80'[$'\x90'-$'\x95']* | $'\xe2\x88\x92'*) bad_line "it contains the dash of a word processor; replace it by - or --" ;;
    $'\xe2\x80'[$'\x98'-$'\x9f']* | [\"\'\`]*) bad_line "it contains a quotation mark; remove it, because no value contains blanks" ;;
    \\*) bad_line "it contains '\\'; write paths with '/', for example /mnt/c/data for C:\\data" ;;
    $'\t'*) bad_line "its command contains a tab; separate options by blanks" ;;
    [~$]*) bad_line "'${odd:0:1}' is not expanded; write the whole path, or give the option after --: -- --data cifar10:\$HOME/cifar10" ;;
    \#*) bad_line "a comment behind the command; write it in a line of its own" ;;
    [[:cntrl:]]*) bad_line "it contains a control character" ;;
    [[:print:]]*) bad_line "it contains the character '${odd:0:1}'" ;;
  esac
  [[ ! $odd =~ ^[$'\xc2'-$'\xf4'][$'\x80'-$'\xbf']+ ]] || bad_line "it contains '${BASH_REMATCH[0]}'; use characters of ASCII"
  [ -z "$odd" ] || bad_line "it is not encoded in UTF-8; save the table in this encoding"
}

# Exits because of the current line in `read_points`; $1 says what is wrong with it.
bad_line() {
  die "$table, line $line: $1; the columns, separated by tabs or blanks, are name, ranks, and a command such as: train --batch-per-rank 32"
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

declare -A used_by=() long_name=() # option -> commands that use it; letter of an option -> its name
known_commands="" time_options=" "  # commands whose options these arrays contain; options that affect times

# Reads the options of the command $1 from the help of its program. Returns 1 if the program cannot run here.
read_options() {
  local names commands affects name
  [[ $known_commands != *" $1 "* ]] || return 0
  if [[ $1 == *.py ]]; then
    read_options train || true # so that options of lockstep are not taken for those of the program
    set_recorded_python 2>/dev/null || return 1
    names=$("${container[@]}" "${recorded_python[@]}" "$root/$1" --help 2>/dev/null) || return 1
    while read -r name; do
      used_by[$name]+=" $1 "
    done < <(grep -oE -- '--[a-z][a-z-]*' <<<"$names" | sort -u)
    known_commands+=" $1 "
  else
    while IFS='|' read -r _ names _ commands affects _; do
      [[ $names =~ ^\ *((-[a-z])\ +)?(--[a-z-]+) ]] || continue
      name=${BASH_REMATCH[3]} commands=" $commands "
      used_by[$name]+=${commands/ all / $writers }
      [ -z "${BASH_REMATCH[2]}" ] || long_name[${BASH_REMATCH[2]}]=$name
      [[ ! $affects =~ time|both ]] || time_options+="$name "
    done < <("${container[@]}" "$(lockstep_program)" help options 2>/dev/null | tr '`,' '  ')
    [ ${#long_name[@]} -gt 0 ] || return 1
    known_commands+=" $writers "
  fi
}

# Sets the array `expanded`: the further arguments, as arguments of the command $1, with names instead of letters of options.
expand_letters() {
  local command=$1 word name rest
  shift
  expanded=()
  for word in "$@"; do
    if [[ $word == -[a-z]* && $command != *.py ]]; then
      name=${long_name[${word:0:2}]:-} rest=${word:2}
      [ -z "$name" ] || word=$name${rest:+=$rest}
    fi
    expanded+=("$word")
  done
}

# Sets the array `merged`: the words of the command line $1 without the options that the further arguments contain, followed by
# the further arguments. --global-batch and --batch-per-rank replace each other. Omits the further options that other commands use but
# this one does not, and sets `dropped` to their names; omits none if the options are not known, because the program cannot run here.
merge_options() {
  local words word name command=${1%% *} known=no keep=yes replaced=" " added=()
  read -r -a words <<<"$1"
  shift
  dropped=" "
  [ $# -eq 0 ] || ! read_options "$command" || known=yes
  expand_letters "$command" "$@"
  for word in "${expanded[@]}"; do
    if [[ $word == --* ]]; then
      keep=yes name=${word%%=*}
      [ $known = no ] || [[ -z ${used_by[$name]:-} || ${used_by[$name]} == *" $command "* ]] || keep=no
      case $keep$name in
        no*) dropped+="$name " ;;
        yes--global-batch | yes--batch-per-rank) replaced+="--global-batch --batch-per-rank " ;;
        *) replaced+="$name " ;;
      esac
    fi
    [ $keep = no ] || added+=("$word")
  done
  expand_letters "$command" "${words[@]}"
  merged=() keep=yes
  for word in "${expanded[@]}"; do
    if [[ $word == --* ]]; then
      [[ $replaced == *" ${word%%=*} "* ]] && keep=no || keep=yes
    fi
    [ $keep = no ] || merged+=("$word")
  done
  merged+=("${added[@]}")
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

container=() # command that starts a program in the container of the study; set by `container_command` in jobs/slurm/launcher.sh

# Sets the array `recorded_python`, unless it is set: the command that starts programs with PyTorch; in the container if LOCKSTEP_IMAGE is set.
recorded_python=()
[ -z "${LOCKSTEP_IMAGE:-}" ] || recorded_python=(python3 "$root/analysis/start.py")
set_recorded_python() {
  local words
  [ ${#recorded_python[@]} -eq 0 ] || return 0
  words=$(find_python "torch,h5py") || return 1
  mapfile -t recorded_python <<<"$words"
}

# Sets the array `command`: the command of the point with the command line $1, repeat $2 and name $3 in the directory $4,
# which writes the run file $5. The further arguments replace options of the point. Training runs get the seed of the repeat; those of
# lockstep resume from their checkpoints.
# shellcheck disable=SC2034  # the scripts that source this file read the array
point_command() {
  local line=$1 repeat=$2 point=$3-$2 directory=$4 file=$5
  shift 5
  merge_options "$line" "$@"
  command=("$(lockstep_program)" "${merged[@]}")
  if [[ ${merged[0]} == *.py ]]; then
    set_recorded_python || exit 1
    command=("${recorded_python[@]}" "$root/${merged[0]}" "${merged[@]:1}" --seed "$repeat")
  elif [ "${merged[0]}" = train ]; then
    command+=(--seed "$repeat" --checkpoint-dir "$directory/checkpoints/$point" --resume auto)
  fi
  command+=(--output "$file")
}

# Prints the experiment of repeat $2 of the point with index $1 as lines NAME=VALUE: the launcher $3, and what `lockstep help
# experiment` prints for the command with the further arguments (build, ranks, options that affect results or times); for a Python
# program, its options and the digest of all Python files in its folder, because it may import them. Prints an error and returns 1 if
# the program rejects the options.
point_experiment() {
  local index=$1 repeat=$2 launcher=$3 merged command text
  shift 3
  point_command "${arguments_of[index]}" "$repeat" "${names[index]}" . run.h5 "$@"
  if [[ ${merged[0]} == *.py ]]; then
    printf 'launcher=%s\nranks=%s\nprogram=%s\noptions=%s\n' "$launcher" "${ranks_of[index]}" \
      "$(cat -- "$(dirname "$root/${merged[0]}")"/*.py | sha256sum | cut -d ' ' -f 1)" "${merged[*]}"
    return
  fi
  command=("${container[@]}" "${command[0]}" help experiment "${ranks_of[index]}" "${command[@]:1}")
  if ! text=$("${command[@]}" 2>/dev/null); then
    { "${command[@]}" >/dev/null || true; } 2>&1
    return 1
  fi
  printf 'launcher=%s\n%s\n' "$launcher" "$text"
}

# Writes the experiment to the file $1.started before the command of the point and repeat $1 (a path without extension) starts; further
# arguments as those of `point_experiment`.
mark_started() {
  local text
  text=$(point_experiment "${@:2}") || text=""
  rm -f -- "$1.memory" # of an earlier attempt
  printf '%s' "${text:+$text$'\n'}" >"$1.started"
}

# Writes the file $1.done after the command has written the run file $2: the name of the file and the experiment of $1.started. Of the
# checkpoints, only the last one with the final weights is kept. Returns 1, with a message, if there is no run file, for example because
# of --dry-run.
mark_complete() {
  [ -e "$2" ] || { printf '%s: the command of %s wrote no run file\n' "${0##*/}" "${1##*/}" >&2 && return 1; }
  { printf '%s\n' "${2##*/}" && cat -- "$1.started"; } >"$1.done.new" && mv -f -- "$1.done.new" "$1.done" || return 1
  rm -f -- "$1.started" "$1.memory"
  find "${1%/*}/checkpoints/${1##*/}" -name 'checkpoint-*.h5' -print0 2>/dev/null | sort -zV | head -zn -1 | xargs -0r rm -f -- || true
}

# Notes in the file $1.memory that the point and repeat $1 does not fit in memory (exit status 4); the report names it.
mark_too_large() {
  cp -f -- "$1.started" "$1.memory"
  echo "${1##*/} does not fit in memory"
}

parts_pattern='(\.([0-9_]+|part[0-9]+))+\.h5' # end of the name of a run file after point and repeat: part, or job, task and restart

# Prints the files of the point and repeat $1 (a path without extension): run files, and the folder of its checkpoints.
files_of_run() {
  local file
  for file in "$1".*.h5 "$1".*.h5.partial*; do
    if [[ -e $file && ${file#"$1"} =~ ^${parts_pattern}(\.partial.*)?$ ]]; then printf '%s\n' "$file"; fi
  done
  file=${1%/*}/checkpoints/${1##*/}
  [ -z "$(find "$file" -mindepth 1 -print -quit 2>/dev/null)" ] || printf '%s\n' "$file"
}

# Completes the point and repeat $1 (a path without extension) if one of its run files is complete, because the script was killed
# before it noticed that; lockstep would not train again, and would write no run file. Returns 1 if there is no such file.
complete_after_kill() {
  local files=() file
  mapfile -t files < <(files_of_run "$1" | grep '\.h5$')
  [ ${#files[@]} -gt 0 ] || return 1
  file=$("${container[@]}" "$root/analysis/run-python" --modules h5py -c '
import sys, h5py
for name in sys.argv[1:]:
    try:
        with h5py.File(name) as file:
            if file.attrs["status"] in ("complete", b"complete"):
                sys.exit(print(name))
    except (OSError, KeyError):
        pass
sys.exit(1)' "${files[@]}") && mark_complete "$1" "$file"
}

# Returns 0 if repeat $2 of the point with index $1 is complete in the folder $3, 1 if it is not, and 2, with a message, if its
# experiment cannot be compared with the present one (launcher $4 and further arguments). Exits with an error that names the changes
# if the experiments differ, also if the run has started and is not complete, because its checkpoint and its run files would be
# continued. A message says that a marker without an experiment was not compared.
is_complete() {
  local point=${names[$1]}-$2 state=complete marker saved present changes file files=()
  marker=$3/$point.done
  mapfile -t files < <(files_of_run "$3/$point")
  if [ -e "$marker" ]; then
    file=$(head -n 1 -- "$marker")
    [[ " ${files[*]} " == *" $3/$file "* ]] || refuse "$marker names the run file '$file', which does not exist"
    saved=$(tail -n +2 -- "$marker")
  else
    state=interrupted marker=$3/$point.started
    [ ${#files[@]} -gt 0 ] || return 1
    saved=$(cat -- "$marker" 2>/dev/null) || true
  fi
  if [ -z "$saved" ]; then
    say_once "$marker does not contain the options and the build of the run (the program was not available when it started, or the file was deleted): it counts as $state, but was not compared with the present options"
  elif ! present=$(point_experiment "$1" "$2" "${@:4}"); then
    [ ${#container[@]} -gt 0 ] || type -P "$(lockstep_program)" >/dev/null || present="no lockstep program was found; set LOCKSTEP_BIN"
    say_once "$marker was not compared with the present options: ${present##*$'\n'}"
    return 2
  else
    changes=$(awk -F = -v q="'" '{ value = substr($0, length($1) + 2) }
      NR == FNR { saved[$1] = value; next }
      saved[$1] != value { printf "%s%s from %s to %s", comma, $1, q saved[$1] q, q value q; comma = ", " }
      ' <(printf '%s\n' "$saved") <(printf '%s\n' "$present"))
    [ -z "$changes" ] || refuse "$point is $state, but the present command changes $changes"
  fi
  [ $state = complete ]
}

# Exits with the message $1 and the command that deletes the old run, from the variables of `is_complete`.
refuse() { die "$1; use another --dir, or delete the old run: rm -rf $(printf '%q ' "$marker" "${files[@]}")"; }

# Prints the message $1 about a point to stderr, unless this function has printed one about another point.
said=""
say_once() {
  [ -n "$said" ] || printf '%s: %s (further points are not listed)\n' "${0##*/}" "${1//[[:cntrl:]]/?}" >&2
  said=yes
}

# Prints a message if the folder $1 has run files of points that the table does not contain, because the report includes them.
name_other_points() {
  local file others=" "
  for file in "$1"/*.h5; do
    [[ ${file##*/} =~ ^(.+)-[0-9]+${parts_pattern}$ ]] || continue
    [[ " ${names[*]} $others" == *" ${BASH_REMATCH[1]} "* ]] || others+="${BASH_REMATCH[1]} "
  done
  [ "$others" = " " ] || echo "${0##*/}: the report will include points that are not in the table:$others(in $1)" >&2
}
