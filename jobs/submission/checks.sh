# shellcheck shell=bash disable=SC2154
# Part of jobs/submit.sh: refuses what would fail hours later in the queue.

whole_number() {  # name, value, smallest
  if ! [[ $2 =~ ^(0|[1-9][0-9]{0,17})$ ]] || [ "$2" -lt "$3" ]; then fail "$1 = '$2' is not a whole number of at least $3"; fi
}

# Such a list is split by read: a word like * stays what it is.
whole_numbers() {  # name of the variable, smallest
  local number numbers
  read -ra numbers <<<"${!1//$'\n'/ }"
  [ ${#numbers[@]} -gt 0 ] || fail "$1 = '${!1}' has no number"
  for number in "${numbers[@]}"; do whole_number "$1" "$number" "$2"; done
  printf -v "$1" '%s' "${numbers[*]}"
}

# Written into a line of the script, they would end it and begin another one.
no_control_characters() {  # what, value
  [[ $2 != *[[:cntrl:]]* ]] || fail "$1 = $(printf %q "$2") has a line break or another control character; take it out"
}

check_words() {
  no_control_characters experiment "${words[0]}"
  no_control_characters site "${words[1]}"
}

# What goes into the script's head. Slurm would read what follows a blank as another option.
check_text() {
  local of option
  for of in $names name config; do
    [[ $of = seeds || $of = rank_counts ]] || no_control_characters "$of" "${!of}"
  done
  for of in account partition qos constraint mail_user name; do
    [[ ${!of} != *[[:blank:]]* || $scheduler != slurm ]] || fail "$of = '${!of}' has a blank, which Slurm takes for its end"
  done
  for option in "${sbatch_options[@]}"; do no_control_characters sbatch "$option"; done
}

# Seconds of a time limit as sbatch takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
seconds_of() {
  local text=$1 days=0 fields
  [[ $text =~ ^([0-9]+-)?[0-9]+(:[0-9]+){0,2}$ ]] ||
    fail "time = '$text' is no time limit; write minutes, hours:minutes:seconds or days-hours"
  if [[ $text == *-* ]]; then
    days=${text%%-*}
    IFS=: read -ra fields <<<"${text#*-}:0:0"
  else
    IFS=: read -ra fields <<<"$text"
    case ${#fields[@]} in
      1) fields=(0 "${fields[0]}" 0) ;;
      2) fields=(0 "${fields[@]}") ;;
    esac
  fi
  echo $((10#$days * 86400 + 10#${fields[0]} * 3600 + 10#${fields[1]} * 60 + 10#${fields[2]}))
}

check_time() {
  local seconds
  [ -n "$time" ] || fail "no time limit; give --time, such as --time 4:00:00"
  seconds=$(seconds_of "$time")
  whole_number margin "$margin" 1
  # Slurm may send the signal up to a minute early.
  [ "$seconds" -ge $((margin + 60)) ] ||
    fail "time = $time ($seconds s) is shorter than margin + 60 s = $((margin + 60)) s: the run would be told to write its \
checkpoint as it starts; give a longer --time, or a smaller --margin if a checkpoint takes less than $margin s"
}

# Ranks and nodes of one job; `nodes` stays empty where Slurm may choose.
check_shape() {
  local fitting
  if [ -n "$nodes" ]; then
    whole_number nodes "$nodes" 1
    [ -n "$ranks_per_node" ] || fail "nodes = $nodes also needs --ranks-per-node"
    whole_number ranks_per_node "$ranks_per_node" 1
    ranks=${given[ranks]-$((nodes * ranks_per_node))}
  fi
  whole_number ranks "$ranks" 1
  [ -n "$ranks_per_node" ] || return 0
  whole_number ranks_per_node "$ranks_per_node" 1
  [ "$ranks_per_node" -le "$ranks" ] || ranks_per_node=$ranks
  fitting=$(((ranks + ranks_per_node - 1) / ranks_per_node))
  [ "${nodes:=$fitting}" = "$fitting" ] ||
    fail "$ranks ranks, $ranks_per_node on a node, need $fitting nodes, not $nodes; leave --nodes or --ranks away"
}

check_slurm() {
  command -v sbatch >/dev/null || [ "$dry_run" = 1 ] ||
    fail "sbatch is not on this machine; log in to the cluster, or take the site workstation"
  check_time
  whole_number cpus_per_rank "$cpus_per_rank" 1
  whole_number max_requeues "$max_requeues" 0
  [[ $gpus_per_rank =~ ^[01]$ ]] || fail "gpus_per_rank = '$gpus_per_rank' is neither 0 nor 1; a rank uses one GPU"
  [ "$gpus_per_rank" = 0 ] || [ -n "$ranks_per_node" ] || fail "gpus_per_rank = 1 also needs --ranks-per-node"
  [ "$needs_account" = 0 ] || [ -n "$account" ] || fail "this site needs --account (or MRMF_ACCOUNT): the project that pays"
}

check_rank_counts() {
  local number
  [ -n "$rank_counts" ] || fail "a scaling sweep needs --rank-counts, such as --rank-counts \"1 2 4\""
  whole_numbers rank_counts 1
  [ -z "$global_batch" ] || whole_number global_batch "$global_batch" 1
  for number in $rank_counts; do
    [ -z "$global_batch" ] || [ $((global_batch % number)) = 0 ] ||
      fail "global_batch = $global_batch cannot be shared by $number ranks; take rank counts that divide it"
  done
  [[ $weak =~ ^[01]$ ]] || fail "$experiment: weak = '$weak' is neither 0 nor 1"
  [ -z "$nodes" ] || fail "a scaling sweep takes its nodes from --rank-counts; leave --nodes away"
}

# Files of these names that are not from here belong to somebody else.
check_files() {
  local file
  for file in job.sh job.toml; do
    [ ! -h "$folder/$file" ] || fail "$folder/$file is a link, through which this would write; give another --folder"
    if [ ! -e "$folder/$file" ] || grep -qs "^$mark" "$folder/job.sh"; then continue; fi
    fail "$folder/$file is there and not from jobs/submit.sh, which would replace it; give another --folder, or move it"
  done
}

# What Slurm would read otherwise in "#SBATCH --output" and in its list of jobs.
check_folder() {
  local place
  place=$(realpath -m "$folder")
  [[ $place != *[[:space:][:cntrl:]%]* ]] || fail "$place: Slurm cannot write into a folder whose name has blanks or %; give another --folder, or \
call this from another place"
}

# Beside the run folder that the script knows, a job would find no run finished, and an array's runs would share one.
check_overrides() {
  local pair
  for pair in "${overrides[@]}"; do
    [[ $pair != run.folder=* ]] || fail "$pair: this key does not set a job's run folder; give --folder ${pair#*=}"
    [[ $pair != ensemble.folder=* ]] || fail "$pair: this key does not set a job's folder; give --folder ${pair#*=}"
    [[ $pair != run=*folder* ]] || fail "$pair: this table does not set a job's run folder; give --folder in its place"
  done
}

check_settings() {
  check_text
  check_overrides
  case $kind in
    train) ;;
    ensemble)
      [ -n "$parts" ] || fail "an ensemble needs --parts, such as --parts 20: how many tasks share its members"
      whole_number parts "$parts" 1 ;;
    array)
      [ -n "$seeds" ] || fail "an array needs --seeds, such as --seeds \"1 2 3\""
      whole_numbers seeds 0 ;;
    scaling | bench) check_rank_counts ;;
    *) fail "$experiment: kind = '$kind' is none of train, array, ensemble, scaling, bench" ;;
  esac
  [ -f "$config" ] || fail "$experiment: no configuration $config"
  [ -n "$program" ] || program=$(find_program)
  [ -x "$program" ] || fail "no program $program; run make, or give --program"
  program=$(realpath "$program")
  [ -z "$cpus_per_rank" ] || whole_number cpus_per_rank "$cpus_per_rank" 1
  if [ "$scheduler" = slurm ]; then check_slurm; fi
}

# The program reads the configuration as the job will, so that a mistake shows now.
check_config() {
  local said options
  [ "$check_at_submission" = 1 ] || return 0
  if [ "$kind" = ensemble ]; then
    as_options "ensemble.folder=$folder" "${overrides[@]}"
    said=$( (prepare && "$program" ensemble "$config" --dry-run "${options[@]}") 2>&1) || fail "$said"
    return
  fi
  as_options "run.folder=$folder" "${overrides[@]}"
  said=$( (prepare && "$program" plan "$config" "${options[@]}") 2>&1) || fail "$said"
}
