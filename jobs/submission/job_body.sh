# shellcheck shell=bash disable=SC2154
# The same in every batch script; the settings above say what runs.

say() { echo "job: $(date '+%F %T') $*"; }
fail() { say "error: $*"; exit 1; }

# 75: mrmf wrote a checkpoint because it was asked to stop. 138 and 143: the same signals (USR1 and TERM) met a program
# that was not listening yet; the last checkpoint, or the beginning, is then where the run continues.
was_stopped() { [ "$1" = 75 ] || [ "$1" = 138 ] || [ "$1" = 143 ]; }

# 139 and 134: a rank crashed. MPI's libraries do so now and then while they end, when the program has done all its work.
has_crashed() { [ "$1" = 139 ] || [ "$1" = 134 ]; }

requeue() {
  local count=${SLURM_RESTART_COUNT:-0} job state
  [ "$scheduler" = slurm ] || { say "stopped with a checkpoint; the same command continues this run"; exit 75; }
  [ "$count" -lt "$max_requeues" ] ||
    fail "stopped again after $count of at most $max_requeues requeues; submit once more to continue this run"
  job=$SLURM_JOB_ID
  # The job id of an array's last task is that of the whole array.
  [ -z "${SLURM_ARRAY_JOB_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  state=$(scontrol show job --oneliner "$job" | sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p')
  [ "$state" = RUNNING ] || fail "stopped, and the job is $state: not requeued"
  say "stopped; requeue $((count + 1)) of at most $max_requeues"
  scontrol requeue "$job" || fail "Slurm would not requeue job $job; submit once more to continue this run"
  sleep 120  # Slurm ends this script
  exit 75
}

# Ranks that do not know of each other would all train alone, in the same folder.
check_ranks() {
  local code=0 text counted
  say "$run, attempt $((${SLURM_RESTART_COUNT:-0} + 1)), on ${SLURM_JOB_NODELIST:-$(hostname)}"
  text=$("${launch[@]}" "$program" doctor 2>&1) || code=$?
  if was_stopped "$code"; then requeue; fi
  counted=$(sed -n 's/^ranks  *//p' <<<"$text" | sort -u | tr '\n' ' ')
  if has_crashed "$code" && [ "$counted" = "$ranks " ]; then code=0; fi
  [ "$code" = 0 ] || fail "${launch[*]} cannot start $ranks ranks (exit code $code):
$text"
  [ "$counted" = "$ranks " ] ||
    fail "the ranks do not see each other: mrmf counts ${counted:-none }and $ranks were started; Slurm and MPI do not \
know each other: set mpi in the site file (srun --mpi=list names the choices)"
  echo "$text"
}

train() {
  local code=0
  "${launch[@]}" "$program" train "$config" --set "run.folder=$run" "${overrides[@]}" || code=$?
  if was_stopped "$code"; then requeue; fi
  if has_crashed "$code" && [ -e "$run/result.json" ]; then code=0; fi
  [ "$code" = 0 ] || fail "mrmf train ended with exit code $code; its message is above"
  say "done: $run"
}

# A task's share of the members. The last task collects what all have made.
ensemble() {
  local code=0 options=(--set "ensemble.folder=$folder" "${overrides[@]}")
  [ "$parts" = 1 ] || options+=(--part "$part/$parts")
  "${launch[@]}" "$program" ensemble "$config" "${options[@]}" || code=$?
  if was_stopped "$code"; then requeue; fi
  [ "$code" = 0 ] || fail "mrmf ensemble ended with exit code $code; its message is above"
  say "done: $folder${parts:+, part $part of $parts}"
}

# All rank counts in this one job, on the first ranks of it. Nothing is kept of a part, so a stopped one is not requeued.
bench() {
  local code=0 options=(--ranks "$(xargs <<<"$rank_counts" | tr ' ' ',')" --csv "$run/scaling.csv" --overwrite)
  [ "$weak" = 0 ] || options+=(--weak)
  "${launch[@]}" "$program" bench scaling "$config" "${options[@]}" "${overrides[@]}" || code=$?
  [ "$code" = 0 ] || fail "mrmf bench scaling ended with exit code $code; its message is above; 138 and 143: it was \
stopped: give a longer --time, or fewer --rank-counts"
  say "done: $run/scaling.csv; jobs/plots/plot_scaling.py draws it"
}

run=$folder
if [ "$kind" = array ]; then
  seed=${1:-}
  [ "$scheduler" != slurm ] || seed=$SLURM_ARRAY_TASK_ID
  run=$folder/seed-$seed
  overrides+=(--set "training.seed=$seed")
fi
part=0
if [ "$kind" = ensemble ]; then
  part=${1:-}
  [ "$scheduler" != slurm ] || part=$SLURM_ARRAY_TASK_ID
fi
cd "$directory" || fail "no folder $directory on this node; the run needs a shared file system"
if is_finished "$run"; then say "$run is finished already"; exit 0; fi
prepare
check_ranks
case $kind in
  bench) bench ;;
  ensemble) ensemble ;;
  *) train ;;
esac
