#!/usr/bin/env bash
# Writes the batch script of an experiment, shows it and submits it. jobs/README.md explains; --help lists the options.
set -euo pipefail
jobs=$(cd "$(dirname "$0")" && pwd)
repository=$(dirname "$jobs")

usage() {
  cat <<'TEXT'
Usage: jobs/submit.sh EXPERIMENT SITE [OPTION...]
Writes the batch script of an experiment into its folder, shows it and submits it.

  EXPERIMENT  a .job file, such as neuron/paper-one-fusion.job or demo/seeds.job, or a folder with a single one. What is
              here: see below
  SITE        a name in jobs/submission/sites, or a file, such as ./mine.sh: workstation runs at once, without Slurm

  --dry-run              show it; write and submit nothing
  --set KEY=VALUE        any key of the configuration, as for mrmf train; repeatable
  --sbatch OPTION        any other option of sbatch, such as --sbatch=--exclusive; repeatable

What the experiment and the site say, each as --name VALUE, or MRMF_NAME in the environment:
  --folder DIR           run folder (runs/FOLDER/NAME, as the .job file's folder and the file itself are called; the
                         configuration's run.folder is ignored)
  --program FILE         the program (build/mrmf here; else build/mrmf of this script's repository; else mrmf on PATH)
  --ranks N              ranks of a run; or --nodes N with ranks per node
  --time T               time limit, as Slurm writes it: 90, 1:30:00, 2-12:00:00
  --seeds "1 2 3"        array: one run each
  --parts N              ensemble: tasks that share its members, which the last of them collects
  --rank-counts "1 2 4"  scaling: one job each; bench: all in one
  --account, --partition, --qos, --constraint, --mail-user     as for sbatch
  --ranks-per-node, --cpus-per-rank, --gpus-per-rank           as the nodes are
  --mpi NAME             how srun starts MPI: pmix, pmi2, cray_shasta
  --margin S             seconds before the time limit at which the run is told to write a checkpoint (300)
  --max-requeues N       how often a run that was stopped goes back into the queue (20)
TEXT
  echo
  echo "Experiments: $(cd "$jobs/experiments" && echo */*.job)"
  echo "Sites: $(sites)"
}

sites() { (cd "$jobs/submission/sites" && set -- *.sh && echo "${@%.sh}"); }

fail() { echo "submit: $*" >&2; exit 2; }

readonly names="folder program ranks nodes time seeds parts rank_counts account partition qos constraint mail_user ranks_per_node
  cpus_per_rank gpus_per_rank mpi margin max_requeues"

# Options into `given`, words into `words`.
read_options() {
  local option name value
  while [ $# -gt 0 ]; do
    option=$1
    shift
    case $option in
      -h | --help) usage; exit 0 ;;
      --dry-run) dry_run=1; continue ;;
      --*=*) value=${option#*=} option=${option%%=*} ;;
      --*) [ $# -gt 0 ] || fail "$option needs a value; see jobs/submit.sh --help"
           [[ $1 != --* || $option = --sbatch ]] || fail "$option needs a value, and $1 is another option; or write $option=$1"
           value=$1; shift ;;
      -*) fail "unknown option $option; see jobs/submit.sh --help" ;;
      *) words+=("$option"); continue ;;
    esac
    name=${option#--}
    name=${name//-/_}
    case $name in
      set) given_overrides+=("$value") ;;
      sbatch) given_sbatch+=("$value") ;;
      *) [[ $name =~ ^[a-z_]+$ && " ${names//$'\n'/ } " == *" $name "* ]] ||
           fail "unknown option $option; see jobs/submit.sh --help"
         given[$name]=$value ;;
    esac
  done
  [ ${#words[@]} = 2 ] || { usage >&2; fail "an experiment and a site are needed"; }
}

# A file to source: bash looks for names without a slash in PATH first.
with_slash() { if [[ $1 = */* ]]; then echo "$1"; else echo "./$1"; fi; }

# What is sourced runs as bash, so it must be meant for that.
require_job() {
  local is="no .job file"
  [[ $1 != *.job ]] || return 0
  [[ $1 != *.toml ]] || is="a configuration, not a .job file"
  fail "$1 is $is; write a .job file that names the configuration, and give that: see docs/guide/cluster.md"
}

# The experiment's file, from a file, a folder with one, or either of them below jobs/experiments.
find_experiment() {
  local place found
  for place in "$(with_slash "$1")" "$jobs/experiments/$1"; do
    if [ -f "$place" ]; then
      require_job "$place"
      echo "$place"
      return
    fi
    [ -d "$place" ] || continue
    found=("$place"/*.job)
    [ -e "${found[0]}" ] || fail "$place holds no experiment (a .job file)"
    [ ${#found[@]} = 1 ] || fail "$place holds several experiments; name one: ${found[*]##*/}"
    echo "${found[0]}"
    return
  done
  fail "no experiment $1, here or below $jobs/experiments; see jobs/submit.sh --help for those there are"
}

# A site's name is never a file that happens to lie here: that takes a slash.
find_site() {
  local place=$jobs/submission/sites/$1.sh
  [[ $1 != */* ]] || place=$1
  if [ -f "$place" ]; then echo "$place"; return; fi
  [ ! -f "$1" ] || fail "no site $1 in $jobs/submission/sites; for the file $1 that lies here, write ./$1"
  fail "no site file $1 and no $jobs/submission/sites/$1.sh; copy jobs/submission/sites/generic.sh, or take one of: $(sites)"
}

# The program where nothing names one: a job is often submitted from the folder of its data.
find_program() {
  local place
  for place in build/mrmf "$repository/build/mrmf" "$(type -P mrmf)"; do
    if [ -f "$place" ] && [ -x "$place" ]; then echo "$place"; return; fi
  done
  fail "no program build/mrmf, here or in $repository, and no mrmf on PATH; run make in $repository, or give --program"
}

# Site, experiment, environment, options: the later wins.
load() {
  local name variable
  # shellcheck source=/dev/null
  source "$site"
  # shellcheck source=/dev/null
  source "$experiment"
  for name in $names; do
    variable=MRMF_${name^^}
    [ -z "${!variable:-}" ] || given[$name]=${given[$name]-${!variable}}
    [ -z "${given[$name]+given}" ] || printf -v "$name" '%s' "${given[$name]}"
  done
  [ "$gpus_per_rank" = 0 ] || overrides=(run.device=cuda "${overrides[@]}")
  overrides+=("${given_overrides[@]}")
  sbatch_options+=("${given_sbatch[@]}")
  config=$(dirname "$experiment")/$config
}

# shellcheck source=submission/checks.sh
source "$jobs/submission/checks.sh"
# shellcheck source=submission/write.sh
source "$jobs/submission/write.sh"

dry_run=0 words=() given_overrides=() given_sbatch=()
declare -A given=()
read_options "$@"
check_words
experiment=$(find_experiment "${words[0]}")
site=$(find_site "${words[1]}")

# What neither file needs to say. A file may leave the rest empty.
kind=train config="" folder="" program="" ranks="" nodes="" time="" seeds="" parts="" rank_counts="" global_batch="" weak=0
account="" partition="" qos="" constraint="" mail_user="" ranks_per_node="" cpus_per_rank=1 gpus_per_rank=0 mpi=pmix
margin=300 max_requeues=20 needs_account=0 check_at_submission=1 scheduler=slurm overrides=() sbatch_options=()
prepare() { :; }
load
name=$(basename "$experiment" .job)
check_settings
submit_all
