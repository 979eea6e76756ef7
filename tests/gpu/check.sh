#!/usr/bin/env bash
# The check on a GPU, in one call of under ten minutes: tests, parity with the CPU, captured graph against eager, speed
# beside PyTorch, two ranks on one card, compute-sanitizer. Writes docs/results/gpu.md, or $RESULTS.
# Usage: tests/gpu/check.sh [BUILD] in a source tree, gpu/check.sh in a bundle.
# Environment: RESULTS, TOTAL (570, seconds for everything), TORCH_PYTHON (python3; the interpreter that has PyTorch),
# KEEP (a folder for logs and JSON; else they are removed).
# Exit code: 0 all steps passed, 1 at least one failed, 69 no GPU here.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${TORCH_PYTHON:-python3}
total=${TOTAL:-570}
began=$SECONDS
failures=0

# The test cases of everything a backend does; the binary says how many of them ran on CUDA.
readonly cases='operations:*,layers:*,values:*,batch norm:*,dropout:*,NaN:*'
# Those with kernels of our own, for compute-sanitizer.
readonly kernel_cases='layers: pooling,layers: batch norm'
# Synchronisation inside a block happens in reductions.
readonly race_case='layers: batch norm'

fail() { echo "gpu-check: $*" >&2; exit 2; }

if [ -x "$here/../bin/mrmf" ]; then  # a bundle
  root=$(cd "$here/.." && pwd)
  mrmf=$root/bin/mrmf unit=$root/bin/unit_tests mpirun=$root/bin/mpirun results=${RESULTS:-gpu.md}
else
  root=$(cd "$here/../.." && pwd)
  build=$(cd "${1:-$root/build}" 2>/dev/null && pwd) || fail "there is no folder ${1:-$root/build}; run make first"
  mrmf=$build/mrmf unit=$build/tests/unit_tests mpirun=mpirun results=${RESULTS:-$root/docs/results/gpu.md}
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
[ -x "$mrmf" ] || fail "$mrmf is missing; run make first"
[ -x "$unit" ] || fail "$unit is missing; run make first (a bundle made with --without-tests has no GPU check)"
case $results in /*) ;; *) results=$PWD/$results ;; esac

have_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU' || compgen -G '/dev/nvidia[0-9]*' >/dev/null; }

if ! have_gpu; then
  count=$("$unit" --count --test-case="$cases" | sed -n 's/.*current filters: \([0-9]*\).*/\1/p')
  echo "cuda: no device, 0 of ${count:-unknown} cases run"
  exit 69
fi

if [ -n "${KEEP:-}" ]; then
  mkdir -p "$KEEP" || fail "cannot make the folder $KEEP"
  work=$(cd "$KEEP" && pwd)
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
cd "$work" || exit 2
rm -f steps.tsv ./*.json environment.txt

write_page() {
  mkdir -p "$(dirname "$results")"
  python3 "$here/results.py" "$work" >page.md && cp page.md "$results"
}

note() {  # name, status, seconds, detail
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" | tee -a steps.tsv
  [ "$2" != FAILED ] || failures=$((failures + 1))
}

# Runs a command or function within its time limit and what is left of the total; its last line is what it said.
step() {  # name, seconds, command...
  local name=$1 limit=$2 left=$((total - (SECONDS - began))) start=$SECONDS code=0 detail
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    note "$name" FAILED 0 "not run: the $total s for everything are used up"
    return
  fi
  export limit
  timeout -k 5 "$limit" bash -c "$(declare -f); \"\$@\"" step "$@" >"log-${name// /-}.txt" 2>&1 </dev/null || code=$?
  detail=$(grep -v '^ *$' "log-${name// /-}.txt" | tail -n 1 | tr '\t' ' ' | cut -c 1-200)
  case $code in
    0) note "$name" ok $((SECONDS - start)) "$detail" ;;
    77) note "$name" skipped $((SECONDS - start)) "$detail" ;;
    124 | 137) note "$name" FAILED $((SECONDS - start)) "not done after $limit s; last line: $detail" ;;
    *) note "$name" FAILED $((SECONDS - start)) "exit code $code: $detail" ;;
  esac
}

environment() {
  {
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    "$mrmf" --version
    "$mrmf" doctor
  } >"$work/environment.txt" 2>&1 || { cat "$work/environment.txt"; return 1; }
  head -n 1 "$work/environment.txt"
}

# Green is not enough: the binary must say that every case ran on CUDA.
unit_cases() {
  local line
  MRMF_TEST_CUDA=1 "$unit" --test-case="$cases" >unit.txt 2>&1 || { tail -n 30 unit.txt; return 1; }
  line=$(grep -E '^cuda: [0-9]+ of [0-9]+ cases run' unit.txt | tail -n 1)
  [ -n "$line" ] || { echo "the test binary does not say how many cases ran on CUDA"; return 1; }
  echo "$line"
  [[ $line =~ ^cuda:\ ([0-9]+)\ of\ ([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -gt 0 ] &&
    [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
}

parity() { "$mrmf" bench parity --device cuda --preset "$1" --steps 20 --graph "$2" --json "parity-$1-$2.json"; }

parity_bf16() { "$mrmf" bench parity --device cuda --preset "$1" --steps 20 --precision bf16 --json "parity-$1-bf16.json"; }

graph_equal() {
  parity "$1" on && python3 "$here/compare.py" graph "parity-$1-off.json" "parity-$1-on.json"
}

training() {  # network, batch, precision, number of the run
  "$mrmf" bench training --device cuda --preset "$1" --batch "$2" --precision "$3" --steps 200 \
    --json "ours-$1-$3-$4.json"
}

layers() { "$mrmf" bench layers --device cuda --preset "$1" --batch "$2" --precision "$3" --json "layers-$1-$3.json"; }

torch_speed() {
  "$python" -c 'import torch' 2>/dev/null || { echo "$python has no PyTorch; TORCH_PYTHON names another"; return 77; }
  "$python" "$here/torch_bench.py" --network "$1" --limit $((limit - 15)) --json "torch-$1.json" >torch.txt 2>&1 ||
    { tail -n 5 torch.txt; return 1; }
  grep -c 'samples/s' torch.txt | sed 's/$/ variants measured/'
}

two_ranks() {
  "$mrmf" simulate neuron --samples 640 --cells 2 --seed 1 --output neuron.h5 &&
    "$mrmf" train "$here/two_ranks.toml" --overwrite --set run.folder=one-rank &&
    timeout -k 5 60 "$mpirun" --oversubscribe -n 2 "$mrmf" train "$here/two_ranks.toml" --overwrite \
      --set run.folder=two-ranks --set run.ranks_share_gpu=true &&
    python3 "$here/compare.py" runs one-rank two-ranks
}

sanitizer() {  # tool, cases
  local tool
  tool=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin command -v compute-sanitizer) ||
    { echo "compute-sanitizer is not on this machine"; return 77; }
  MRMF_TEST_CUDA=1 "$tool" --tool "$1" --target-processes all --report-api-errors no --error-exitcode 99 "$unit" --test-case="$2" \
    >"sanitizer-$1.txt" 2>&1 || { tail -n 20 "sanitizer-$1.txt"; return 1; }
  grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "sanitizer-$1.txt" | tail -n 1
}

export here mrmf unit mpirun python work cases kernel_cases race_case
step "environment" 30 environment
step "unit tests on cuda" 120 unit_cases
for network in neuron_inverter cosmoflow; do
  step "parity with the CPU, $network" 60 parity $network off
  step "graph equals eager, $network" 60 graph_equal $network
  step "parity in bf16, $network" 60 parity_bf16 $network
done
write_page  # and again later, so that there is one also when this is ended from outside
for run in "neuron_inverter 512" "cosmoflow 8"; do
  for precision in bf16 tf32; do
    # shellcheck disable=SC2086
    step "speed, ${run% *} $precision" 90 training $run $precision 1
  done
  step "PyTorch's speed, ${run% *}" 60 torch_speed "${run% *}"
  for precision in bf16 tf32; do
    # shellcheck disable=SC2086
    step "speed again, ${run% *} $precision" 25 training $run $precision 2
  done
  # shellcheck disable=SC2086
  step "layers, ${run% *} bf16" 25 layers $run bf16
  write_page
done
# Last, because a hang or a fault of these would disturb the others.
step "two ranks on one card" 100 two_ranks
step "compute-sanitizer memcheck" 90 sanitizer memcheck "$kernel_cases"
step "compute-sanitizer racecheck" 45 sanitizer racecheck "$race_case"
write_page

echo "gpu-check: $results, $failures failed, $((SECONDS - began)) s"
[ $failures = 0 ]
