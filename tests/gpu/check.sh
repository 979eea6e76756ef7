#!/usr/bin/env bash
# The check on a GPU, in one call of under ten minutes: tests, gradients and losses beside the CPU's, recorded steps
# against eager ones, two ranks on one card, a grid of them, compute-sanitizer, then speed beside PyTorch. What is right
# comes first, so that a slow machine drops timings. Writes docs/results/gpu.md, or $RESULTS.
# Usage: tests/gpu/check.sh [BUILD] in a source tree, gpu/check.sh in a bundle, which needs bash, python3 and the usual
# small tools of a GPU machine, but neither MPI nor HDF5 nor a compiler nor a network.
# Environment: RESULTS; TOTAL (570, seconds for everything); PART (all; tests or speed: one half in a call of its own, so
# that PyTorch gets all the time); TORCH_PYTHON (python3; the interpreter that has PyTorch); KEEP (a folder for logs and
# JSON; else they are removed); PACK (a file .tar.gz that gets all of that folder, also when this is ended from outside);
# TRIAL=1 (small networks and few cases: does this script itself work?).
# Two halves unpacked into one folder give one page: gpu/results.py FOLDER.
# Exit code: 0 all steps passed (or were skipped or short of time, which the page says), 1 at least one failed, 69 no GPU
# here.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${TORCH_PYTHON:-python3}
total=${TOTAL:-570} part=${PART:-all} trial=${TRIAL:-} slack=1
began=$SECONDS
failures=0

# The test cases of everything a backend does; the binary says how many of them ran on CUDA.
cases='operations:*,layers:*,values:*,batch norm:*,dropout:*,NaN:*'
# What only this backend does: tf32 and bf16, recorded steps, batches in flight, fusion under a record.
low_cases='cuda:*'
# Those with kernels of our own, for compute-sanitizer; the second has the fused ones in bf16.
kernel_cases='layers: pooling,layers: batch norm'
fused_case='cuda: gradients of fused layers in low precision'
# Synchronisation inside a block happens in reductions.
race_cases="layers: batch norm,$fused_case"
networks="neuron_inverter cosmoflow"
if [ -n "$trial" ]; then
  cases='layers: dense*' low_cases=$fused_case networks=neuron_inverter
  total=${TOTAL:-1800} slack=8  # an emulated device, on a machine that does other work, too
fi

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
pack=${PACK:-}
case $pack in '' | /*) ;; *) pack=$PWD/$pack ;; esac
case $part in all | tests | speed) ;; *) fail "PART=$part; it is all, tests or speed" ;; esac

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
fi
leave() {
  if [ -n "$pack" ]; then
    tar -C "$work" -czf "$pack.partial" . 2>/dev/null && mv "$pack.partial" "$pack" || echo "gpu-check: cannot write $pack" >&2
  fi
  if [ -z "${KEEP:-}" ]; then rm -rf "$work"; fi
}
trap leave EXIT
# A step runs in the background: bash would wait for one in the foreground before it looks at a signal.
running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null; exit 143' TERM INT
cd "$work" || exit 2
steps=steps-$part.tsv
rm -f "$steps" page.md

write_page() {
  mkdir -p "$(dirname "$results")"
  python3 "$here/results.py" "$work" >page.md && cp page.md "$results"
}

note() {  # name, status, seconds, detail
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" | tee -a "$steps"
  [ "$2" != FAILED ] || failures=$((failures + 1))
}

# Runs a command or function within its time limit and what is left of the total; its last line is what it said.
step() {  # name, seconds, command...
  local name=$1 limit=$((slack * $2)) left=$((total - (SECONDS - began))) start=$SECONDS code=0 detail
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    note "$name" FAILED 0 "not run: the $total s for everything are used up"
    return
  fi
  export limit
  timeout -k 5 "$limit" bash -c "$(declare -f); \"\$@\"" step "$@" >"log-${name// /-}.txt" 2>&1 </dev/null &
  running=$!
  wait "$running" || code=$?
  running=
  detail=$(grep -v '^ *$' "log-${name// /-}.txt" | tail -n 1 | tr '\t' ' ' | cut -c 1-200)
  case $code in
    0) note "$name" ok $((SECONDS - start)) "$detail" ;;
    75) note "$name" short $((SECONDS - start)) "$detail" ;;
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
unit_cases() {  # cases, what they are
  local line
  MRMF_TEST_CUDA=1 "$unit" --test-case="$1" >"unit-$2.txt" 2>&1 || { tail -n 30 "unit-$2.txt"; return 1; }
  line=$(grep -E '^cuda: [0-9]+ of [0-9]+ cases run' "unit-$2.txt" | tail -n 1)
  [ -n "$line" ] || { echo "the test binary does not say how many cases ran on CUDA"; return 1; }
  echo "$line"
  [[ $line =~ ^cuda:\ ([0-9]+)\ of\ ([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -gt 0 ] &&
    [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
}

# A small network for a trial, else the preset's own size.
small() { [ -z "$trial" ] || echo --length 400; }
batch_of() { if [ -n "$trial" ]; then echo 1; else echo "$1"; fi; }

# At the size that is measured below: the plans, fused kernels and gradients are those of real training.
gradients() {  # network, precision
  "$mrmf" bench gradients --overwrite --device cuda --preset "$1" --precision "$2" ${trial:+--batch 16} \
    --json "gradients-$1-$2.json"
}

parity_steps=${trial:+3}
parity() {  # network, graph, precision
  # shellcheck disable=SC2046
  "$mrmf" bench parity --overwrite --device cuda --preset "$1" --steps "${parity_steps:-20}" --graph "$2" --precision "$3" \
    $(small) --json "parity-$1-$3-$2.json"
}

graph_equal() {  # network, precision
  parity "$1" off "$2" && parity "$1" on "$2" &&
    python3 "$here/compare.py" graph "parity-$1-$2-off.json" "parity-$1-$2-on.json"
}

timed_steps=${trial:+2}
training() {  # network, batch, precision, number of the run
  # shellcheck disable=SC2046
  "$mrmf" bench training --overwrite --device cuda --preset "$1" --batch "$(batch_of "$2")" --precision "$3" --steps "${timed_steps:-200}" \
    $(small) --json "ours-$1-$3-$4.json"
}

layers() {  # network, batch, precision
  # shellcheck disable=SC2046
  "$mrmf" bench layers --overwrite --device cuda --preset "$1" --batch "$(batch_of "$2")" --precision "$3" --steps "${timed_steps:-50}" $(small) --json "layers-$1-$3.json"
}

torch_speed() {  # network
  "$python" -c 'import torch' 2>/dev/null || { echo "$python has no PyTorch; TORCH_PYTHON names another"; return 77; }
  "$python" "$here/torch_bench.py" --network "$1" --limit $((limit - 10)) --json "torch-$1.json" >torch.txt 2>&1 ||
    { tail -n 5 torch.txt; return 1; }
  python3 "$here/results.py" --torch "torch-$1.json"
}

# A batch is a rank's own, so that of two ranks is half as large: then both learn from the same mini-batches. A grid's is
# that of its group.
two_ranks() {
  local samples=640 batch=64
  if [ -n "$trial" ]; then samples=64 batch=8; fi
  "$mrmf" simulate neuron --samples $samples --cells 2 --seed 1 --output neuron.h5 --overwrite &&
    "$mrmf" train "$here/two_ranks.toml" --overwrite --set training.batch=$batch --set run.folder=one-rank &&
    on_one_card two-ranks --set training.batch=$((batch / 2))
}
grid_of_two_ranks() {
  local batch=64
  if [ -n "$trial" ]; then batch=8; fi
  on_one_card grid --set training.batch=$batch --set 'run.grid=[2]'
}
on_one_card() {  # folder, settings of two ranks that learn what two_ranks' one rank does
  local folder=$1
  shift
  timeout -k 5 $((60 * slack)) "$mpirun" --oversubscribe -n 2 "$mrmf" train "$here/two_ranks.toml" --overwrite \
    --set run.folder="$folder" --set run.ranks_share_gpu=true "$@" &&
    python3 "$here/compare.py" runs one-rank "$folder"
}

sanitizer() {  # tool, cases, what they are
  local tool log="sanitizer-$1-$3.txt"
  # Alone, MPI would start a daemon, which the sanitizer would follow, too.
  export OMPI_MCA_ess_singleton_isolated=1
  tool=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin command -v compute-sanitizer) ||
    { echo "compute-sanitizer is not on this machine"; return 77; }
  MRMF_TEST_CUDA=1 "$tool" --tool "$1" --target-processes all --report-api-errors no --error-exitcode 99 "$unit" --test-case="$2" \
    >"$log" 2>&1 || { tail -n 20 "$log"; return 1; }
  grep -qE '^cuda: [1-9][0-9]* of' "$log" || { echo "no case ran on CUDA under the sanitizer"; return 1; }
  grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1
}

export here mrmf unit mpirun python work trial slack parity_steps timed_steps

check_results() {
  step "unit tests on cuda" 120 unit_cases "$cases" float32
  step "unit tests on cuda, tf32 and bf16" 120 unit_cases "$low_cases" low
  local network precision
  for network in $networks; do
    for precision in fp32 tf32 bf16; do
      step "gradients, $network $precision" 75 gradients "$network" $precision
    done
    for precision in fp32 bf16; do
      step "parity and graph equals eager, $network $precision" 75 graph_equal "$network" $precision
    done
  done
  write_page  # and again later, so that there is one also when this is ended from outside
  step "two ranks on one card" 100 two_ranks
  step "two ranks that share samples on one card" 70 grid_of_two_ranks
  step "compute-sanitizer memcheck" 90 sanitizer memcheck "$kernel_cases" float32
  step "compute-sanitizer memcheck, fused kernels in bf16" 60 sanitizer memcheck "$fused_case" fused
  step "compute-sanitizer racecheck" 60 sanitizer racecheck "$race_cases" all
  write_page
}

# PyTorch's variants have what our own runs leave: of what is left for the first network, half.
torch_seconds() {  # seconds to keep for what comes after, networks still to come with this one
  local left=$((total - (SECONDS - began) - $1))
  left=$((left / $2))
  echo $((left > 20 ? left : 20))
}

check_speed() {
  local run precision keep=90 halves=2
  for run in "neuron_inverter 512" "cosmoflow 8"; do
    case " $networks " in *" ${run% *} "*) ;; *) continue ;; esac
    for precision in bf16 tf32; do
      # shellcheck disable=SC2086
      step "speed, ${run% *} $precision" 90 training $run $precision 1
    done
    step "PyTorch's speed, ${run% *}" "$(torch_seconds $keep $halves)" torch_speed "${run% *}"
    for precision in bf16 tf32; do
      # shellcheck disable=SC2086
      step "speed again, ${run% *} $precision" 25 training $run $precision 2
    done
    # shellcheck disable=SC2086
    step "layers, ${run% *} bf16" 25 layers $run bf16
    write_page
    keep=35 halves=1
  done
}

step "environment" 30 environment
if [ "$part" != speed ]; then check_results; fi
if [ "$part" != tests ]; then check_speed; fi
write_page

echo "gpu-check: $results, $failures failed, $((SECONDS - began)) s"
[ $failures = 0 ]
