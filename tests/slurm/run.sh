#!/usr/bin/env bash
# jobs/submit.sh and its jobs, for real under Slurms of one node that live as long as the test.
# Usage: tests/slurm/run.sh BUILD. Exit code 77: skipped, with the reason.
set -eu
cd "$(dirname "$0")/../.."
MRMF=$(realpath "$1")/mrmf
export MRMF
jobs/setup.sh slurmctld slurmd slurm-client munge || { echo "slurm test: skipped: it needs the packages above"; exit 77; }
python=$(command -v /usr/bin/python3 python3 | head -n 1)

# They wait more than they work, so they run side by side.
work=$(mktemp -d)
declare -A running=()
# shellcheck disable=SC2317 # the trap calls it
end() {
  local pid
  for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap end EXIT
for name in submit jobs time_limit tasks; do
  "$python" "tests/slurm/test_$name.py" >"$work/$name" 2>&1 &
  running[$name]=$!
done
failed=0
for name in submit jobs time_limit tasks; do
  wait "${running[$name]}" || failed=1
  unset "running[$name]"
  echo "== $name"
  cat "$work/$name"
done
exit $failed
