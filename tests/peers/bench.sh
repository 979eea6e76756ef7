#!/usr/bin/env bash
# Training speed of mrmf beside the newest PyTorch, measured in one run on this machine, then our layers beside
# oneDNN's own times. Usage: tests/peers/bench.sh [BUILD] [PRESET]: neuron_inverter, cosmoflow on cubes of 64^3 and
# 128^3, or unet3d on volumes of 64^3. Environment: LENGTH, BATCH (for one size alone), THREADS, STEPS, VARIANTS (of PyTorch).
# Ours runs before and after PyTorch: the spread of the two says how quiet the machine was.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build} preset=${2:-neuron_inverter} threads=${THREADS:-2}
case $preset in
  neuron_inverter) sizes=("${LENGTH:-1600} ${BATCH:-512}") steps=${STEPS:-9} ;;
  cosmoflow) sizes=("64 ${BATCH:-8}" "128 ${BATCH:-2}") steps=${STEPS:-5}
             if [ -n "${LENGTH:-}" ]; then sizes=("$LENGTH ${BATCH:-8}"); fi ;;
  unet3d) sizes=("${LENGTH:-64} ${BATCH:-2}") steps=${STEPS:-5} ;;
  *) echo "bench: no preset '$preset'; give neuron_inverter, cosmoflow or unet3d" >&2; exit 2 ;;
esac
venv=.venv-peers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "bench: $*" >&2; exit 1; }

have_torch() { [ -x $venv/bin/python ] && $venv/bin/python -c 'import torch, numpy, h5py' 2>/dev/null; }

install_torch() {
  local python attempt
  echo "bench: installing PyTorch in $venv (about 5.5 GB, some minutes)"
  for attempt in present installed; do  # Debian's own python3 lacks venv unless python3-venv is installed
    for python in python3 /usr/bin/python3; do
      [ -x $venv/bin/pip ] || "$python" -m venv $venv >"$work/venv.log" 2>&1 || true
    done
    if [ -x $venv/bin/pip ] || [ $attempt = installed ]; then break; fi
    jobs/setup.sh python3-venv || break
  done
  [ -x $venv/bin/pip ] || {
    cat "$work/venv.log" >&2
    fail "cannot make $venv; install the Debian package python3-venv"
  }
  $venv/bin/pip install --quiet torch numpy h5py >"$work/pip.log" 2>&1 ||
    { tail -n 5 "$work/pip.log" >&2; fail "cannot install PyTorch with pip (network? disk? 5.5 GB are needed)"; }
  have_torch || fail "PyTorch is installed in $venv but cannot be imported; remove $venv and try again"
}

ours() {  # what to measure; --threads and the sample
  OMP_NUM_THREADS=$threads "$build/mrmf" bench "$1" --preset $preset --sample "$sample" --batch "$batch" \
    --threads "$threads" --steps "$steps"
}

compare() {  # length, batch
  local length=$1 batch=$2 sample=$1x3
  case $preset in
    cosmoflow) sample=$1x$1x$1x4 ;;
    unet3d) sample=$1x$1x$1x1 ;;
  esac
  echo "== mrmf, first run";  ours training | tee "$work/first.log"
  echo "== PyTorch"
  # shellcheck disable=SC2086  # VARIANTS is a list of words
  $venv/bin/python tests/peers/torch/bench_torch.py --network $preset --length "$length" --batch "$batch" \
    --threads "$threads" --steps "$steps" ${VARIANTS:+--variants $VARIANTS} | tee "$work/torch.log"
  echo "== mrmf, second run"; ours training | tee "$work/second.log"
  echo "== side by side"
  "$build/mrmf" --version || true
  $venv/bin/python tests/peers/side_by_side.py "$work/first.log" "$work/torch.log" "$work/second.log"
  echo "== layers beside oneDNN's own times"
  ours layers
}

[ -x "$build/mrmf" ] || fail "$build/mrmf is missing; run make first"
have_torch || install_torch

for size in "${sizes[@]}"; do
  read -r length batch <<<"$size"
  compare "$length" "$batch"
done
echo "== exported networks in PyTorch beside mrmf predict: relative deviations"
$venv/bin/python -B tests/peers/torch/exported.py --build "$build"
