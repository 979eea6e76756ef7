#!/usr/bin/env bash
# Runs the study of this folder under Merlin, on this machine or in a batch job: a Redis of its own on loopback, the
# workers, the study; ends them all when it is done. docs/guide/merlin.md explains.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repository=$(dirname "$(dirname "$here")")

usage() {
  cat <<'TEXT'
Usage: jobs/merlin/run.sh [OPTION...]
  --folder DIR     where studies are kept (./studies)
  --program FILE   the program (build/mrmf of this repository, else mrmf on PATH)
  --design FILE    the ensemble's design (members.toml, beside this script)
  --network FILE   the network, as a configuration (network.toml, beside this script)
  --samples NAME   the members' data set on which it trains (frames)
  --factor N       of the coarse resolution, one per axis of positions: 4, or 2,2,2 (4)
  --members N      members of it (64)
  --tasks N        Merlin tasks that share them (8)
  --epochs N       of the coarse training and of the finetune (4)
  --venv DIR       Python environment with Merlin, made if it is not there (~/.cache/mrmf/merlin)
  --continue DIR   queue again what a study has not finished
  --seconds N      give up after so long (3600)
  --dry-run        write the scripts of all steps, and run none
TEXT
}

fail() { echo "merlin: $*" >&2; exit 1; }

dry=0 network=$here/network.toml samples=frames factor=4
folder=$PWD/studies program="" design=$here/members.toml members=64 tasks=8 epochs=4 venv=$HOME/.cache/mrmf/merlin continued="" seconds=3600
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --dry-run) dry=1; shift ;;
    --folder | --program | --design | --network | --samples | --factor | --members | --tasks | --epochs | --venv | --continue | --seconds)
      [ $# -gt 1 ] || fail "$1 needs a value"
      name=${1#--}; [ "$name" != continue ] || name=continued
      printf -v "$name" '%s' "$2"; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[ -n "$program" ] || program=$repository/build/mrmf
[ -x "$program" ] || program=$(command -v mrmf) || fail "no program: run make in $repository, or give --program"
program=$(realpath "$program")
[ "$dry" = 1 ] || command -v redis-server >/dev/null || fail "redis-server is not here: apt-get install redis-server (it need not be started)"
"$here/setup.sh" "$venv"
venv=$(cd "$venv" && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

work=$(mktemp -d)
children=()
# Whether a step of a worker is still at work: one that is told to stop may have a model to save.
steps_run() {
  local groups=" ${children[*]} "
  ps -eo pgid=,args= | awk -v groups="$groups" 'index(groups, " " $1 " ") && !/celery|redis-server/ { found = 1 } END { exit !found }'
}
# Also a sleeping child of a shell of a worker: workers lead groups of their own. Without Redis, Celery would wait for it.
stop() {
  local child tries=0
  for child in "${children[@]}"; do kill -TERM -- "-$child" 2>/dev/null || true; done
  while [ $tries -lt 600 ] && steps_run; do sleep 0.1; tries=$((tries + 1)); done
  for child in "${children[@]}"; do kill -KILL -- "-$child" 2>/dev/null || true; done
  for child in "${children[@]}"; do wait "$child" 2>/dev/null || true; done
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 143' TERM INT HUP

start() {  # log, command...
  local log=$1
  shift
  setsid "$@" >"$log" 2>&1 &
  children+=($!)
}

variables=(OUTPUT_PATH="$folder" MRMF="$program" DESIGN="$(realpath "$design")" NETWORK="$(realpath "$network")" SAMPLES="$samples"
  FACTOR="$factor" MEMBERS="$members" TASKS="$tasks" EPOCHS="$epochs")
if [ "$dry" = 1 ]; then
  export PATH=$venv/bin:$PATH
  cd "$folder"
  HOME=$work merlin run "$here/study.yaml" --local --dry --vars "${variables[@]}" >"$folder/merlin.log" 2>&1 || fail "see $folder/merlin.log"
  study=$(find "$folder" -maxdepth 1 -name 'mrmf_*' -type d | sort | tail -n 1)
  find "$study" -name '*.sh' -not -path '*/merlin_info/*' | sort
  exit 0
fi

# Merlin pickles what it queues: the broker is private, on loopback, with a password that nobody else knows.
export HOME=$work C_FORCE_ROOT=1 PATH=$venv/bin:$PATH
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$work/.merlin" "$work/redis"
cat >"$work/.merlin/app.yaml" <<YAML
broker: { name: redis, server: 127.0.0.1, port: $port, db_num: 0 }
results_backend: { name: redis, server: 127.0.0.1, port: $port, db_num: 1 }
YAML
start "$folder/redis.log" redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$work/redis"
for _ in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-cli -p "$port" ping >/dev/null || fail "Redis does not answer; see $folder/redis.log"

# Merlin names the folder by the second; the newest one is ours.
cd "$folder"
if [ -n "$continued" ]; then
  study=$(cd "$continued" && pwd)
  # Steps behind the simulations that Merlin calls finished may lack what a lost task now makes.
  merlin restart "$study" >>"$folder/merlin.log" 2>&1 || fail "merlin restart failed; see $folder/merlin.log"
else
  merlin run "$here/study.yaml" --vars "${variables[@]}" >>"$folder/merlin.log" 2>&1 || fail "merlin run failed; see $folder/merlin.log"
  study=$(find "$folder" -maxdepth 1 -name 'mrmf_*' -type d | sort | tail -n 1)
fi
[ -n "$study" ] || fail "Merlin has made no study; see $folder/merlin.log"
echo "merlin: $study"
# The commands that run-workers would start in the background, started here so that they end with this script.
number=0
while read -r command; do
  number=$((number + 1))
  start "$folder/worker-$number.log" bash -c "exec $command"
done < <(merlin run-workers "$here/study.yaml" --echo --vars "${variables[@]}" 2>/dev/null | grep '^celery' | sed 's/%%h/%h/')
[ "$number" -gt 0 ] || fail "Merlin names no workers"

end=$((SECONDS + seconds))
until [ -e "$study/study.json" ]; do
  redis-cli -p "$port" ping >/dev/null 2>&1 || fail "Redis is gone; nothing that was made is lost: jobs/merlin/run.sh --continue $study"
  for child in "${children[@]}"; do kill -0 "$child" 2>/dev/null || fail "a worker has ended; see $folder/worker-*.log; jobs/merlin/run.sh --continue $study"; done
  failed=$(grep -lE "Exit code: 102|HARD_FAIL|Hard fail" "$folder"/worker-*.log 2>/dev/null || true)
  [ -z "$failed" ] || fail "a stage failed; see $study and $folder/worker-*.log; then: jobs/merlin/run.sh --continue $study"
  [ "$SECONDS" -lt "$end" ] || fail "not done within $seconds s; jobs/merlin/run.sh --continue $study"
  sleep 0.2
done
cat "$study/study.json"
echo
redis-cli -p "$port" info | awk -F: '/^used_memory_peak:/ { peak = $2 / 1e6 } /^db1:/ { split($2, n, /[=,]/); keys = n[2] }
  END { printf "merlin: Redis has %d results and took %.1f MB at its peak\n", keys, peak }' >&2
