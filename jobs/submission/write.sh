# shellcheck shell=bash disable=SC2154,SC2034
# Part of jobs/submit.sh: writes the batch scripts, shows and submits them.

readonly mark="# Written by jobs/submit.sh"

directive() { [ -z "$2" ] || echo "#SBATCH --$1=$2"; }

comma_list() { echo "${1// /,}"; }

# The options of sbatch, as the head of the script.
slurm_head() {
  local log=job-%j.log option
  directive job-name "mrmf-$name"
  directive ntasks "$ranks"
  directive nodes "$nodes"
  directive ntasks-per-node "$ranks_per_node"
  directive cpus-per-task "$cpus_per_rank"
  [ "$gpus_per_rank" = 0 ] || directive gpus-per-node "$ranks_per_node"
  directive time "$time"
  directive account "$account"
  directive partition "$partition"
  directive qos "$qos"
  directive constraint "$constraint"
  if [ "$kind" = array ]; then
    directive array "$(comma_list "$seeds")"
    log=job-%A_%a.log
  elif [ "$kind" = ensemble ]; then
    directive array "0-$((parts - 1))"
    log=job-%A_%a.log
  fi
  directive output "$(realpath -m "$folder")/$log"
  directive signal "USR1@$margin"
  if [ -n "$mail_user" ]; then
    directive mail-user "$mail_user"
    directive mail-type END,FAIL,REQUEUE
  fi
  echo "#SBATCH --requeue"
  echo "#SBATCH --open-mode=append"
  for option in "${sbatch_options[@]}"; do echo "#SBATCH $option"; done
}

# --kill-on-bad-exit would let the first rank that ends with 75 kill those still writing; --wait bounds the time that
# others wait for a rank that died.
launch_command() {
  if [ "$scheduler" = slurm ]; then
    launch=(srun "--mpi=$mpi" "--ntasks=$ranks" "--cpus-per-task=$cpus_per_rank" --kill-on-bad-exit=0 --wait=60)
  else
    launch=(mpirun --bind-to none -n "$ranks")
  fi
}

list() {  # name, values...
  local name=$1 value text=""
  shift
  for value in "$@"; do printf -v text '%s %q' "$text" "$value"; done
  echo "$name=(${text# })"
}

# The `options` of mrmf for key=value pairs.
as_options() {
  options=()
  local pair
  for pair in "$@"; do options+=(--set "$pair"); done
}

script() {
  local launch options settings=(scheduler kind ranks folder config program directory max_requeues parts rank_counts weak) name_of
  launch_command
  local config=$folder/job.toml directory=$PWD
  echo "#!/usr/bin/env bash"
  [ "$scheduler" != slurm ] || slurm_head
  echo "$mark ${words[*]}"
  for name_of in "${settings[@]}"; do printf '%s=%q\n' "$name_of" "${!name_of}"; done
  list launch "${launch[@]}"
  as_options "${overrides[@]}"
  list overrides "${options[@]}"
  [ -z "$cpus_per_rank" ] || echo "export OMP_NUM_THREADS=$cpus_per_rank"
  declare -f prepare is_finished
  sed 1d "$jobs/submission/job_body.sh"
}

# Whether this folder of a run holds all of its results. An ensemble some of whose members failed is not finished: they
# are tried again with mrmf ensemble --retry-failed. The job asks this, too.
is_finished() {
  [ -e "$1/scaling.csv" ] || { [ -e "$1/result.json" ] && ! grep -qs '"failed": \[$' "$1/result.json"; }
}

finished() {
  local seed
  [ "$kind" = array ] || { is_finished "$folder"; return; }
  for seed in $seeds; do is_finished "$folder/seed-$seed" || return 1; done
}

# Two jobs of one run would write over each other.
refuse_twice() {
  local queued
  queued=$(squeue --noheader --user "$(id -un)" --format "%A %o" | awk -v script="$1" '$2 == script { print $1 }') ||
    fail "$folder is not submitted: squeue reaches no Slurm, as its lines above say; log in to the cluster, try again \
if its Slurm is down, or take the site workstation, which needs none"
  [ -z "$queued" ] || fail "$folder is queued or running already, as job ${queued//$'\n'/ }; scancel it, or give another --folder"
}

run_here() {
  local seed ended=0
  if [ "$kind" = ensemble ]; then  # parts do not depend on each other, but a signal stops all of them
    for ((part = 0; part < parts; ++part)); do
      bash "$folder/job.sh" "$part" || ended=$?
      [ "$ended" != 75 ] || break
    done
    return "$ended"
  fi
  [ "$kind" = array ] || { bash "$folder/job.sh"; return; }
  for seed in $seeds; do bash "$folder/job.sh" "$seed"; done
}

# The input, into a file that a full disk leaves as it was.
write_whole() {  # file
  local partial
  partial=$(mktemp "$1.partial-XXXXXX") || fail "$1 cannot be written; the line above says why"
  if ! cat >"$partial" || ! chmod 644 "$partial" || ! mv -f "$partial" "$1"; then
    rm -f "$partial"
    fail "$1 cannot be written; the line above says why"
  fi
}

# One batch script: checked, written, shown, submitted.
submit_one() {
  check_shape
  if [ "$scheduler" = slurm ]; then check_folder; fi
  check_config
  check_files
  if finished; then fail "$folder is finished already; give another --folder, or remove it"; fi
  echo "== $folder/job.sh"
  script
  if [ "$dry_run" = 1 ]; then
    echo "== not written, not submitted"
    return
  fi
  [ "$scheduler" != slurm ] || refuse_twice "$(realpath -m "$folder")/job.sh"
  mkdir -p "$folder"
  script | write_whole "$folder/job.sh"
  write_whole "$folder/job.toml" <"$config"
  echo "== submitted"
  if [ "$scheduler" = slurm ]; then sbatch "$(realpath "$folder")/job.sh"; else run_here; fi
}

# One job of the most ranks. Strong scaling keeps the mini-batch that they make there.
bench_shape() {
  local count
  ranks=0
  for count in $rank_counts; do [ "$count" -le "$ranks" ] || ranks=$count; done
  [ -z "$global_batch" ] || overrides+=("training.batch=$((global_batch / ranks))")
}

submit_all() {
  local count above site_ranks_per_node=$ranks_per_node shared=("${overrides[@]}")
  above=${folder:-runs/$(basename "$(dirname "$(realpath "$experiment")")")/$name}
  if [ "$kind" != scaling ]; then
    folder=$above
    [ "$kind" != bench ] || bench_shape
    submit_one
    return
  fi
  for count in $rank_counts; do
    folder=$above/ranks-$count ranks=$count nodes="" ranks_per_node=$site_ranks_per_node
    overrides=("${shared[@]}")
    [ -z "$global_batch" ] || overrides+=("training.batch=$((global_batch / count))" "run.ranks=$count")
    submit_one
  done
}
