#!/usr/bin/env bash
# Training speed of mrmf beside the newest PyTorch, measured in one run on this machine, then our layers beside
# oneDNN's own times. Usage: tests/peers/bench.sh [BUILD]. Environment: LENGTH, BATCH, THREADS, STEPS.
# Ours runs before and after PyTorch: the spread of the two says how quiet the machine was.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
length=${LENGTH:-1600} batch=${BATCH:-512} threads=${THREADS:-2} steps=${STEPS:-9}
venv=.venv-peers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "bench: $*" >&2; exit 1; }

have_torch() { [ -x $venv/bin/python ] && $venv/bin/python -c 'import torch, numpy' 2>/dev/null; }

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
  $venv/bin/pip install --quiet torch numpy >"$work/pip.log" 2>&1 ||
    { tail -n 5 "$work/pip.log" >&2; fail "cannot install PyTorch with pip (network? disk? 5.5 GB are needed)"; }
  have_torch || fail "PyTorch is installed in $venv but cannot be imported; remove $venv and try again"
}

ours() {  # name of the log
  OMP_NUM_THREADS=$threads "$build/mrmf" bench training --length "$length" --batch "$batch" --threads "$threads" |
    tee "$work/$1.log"
}

[ -x "$build/mrmf" ] || fail "$build/mrmf is missing; run make first"
have_torch || install_torch

echo "== mrmf, first run";  ours first
echo "== PyTorch"
$venv/bin/python tests/peers/torch/bench_torch.py --length "$length" --batch "$batch" --threads "$threads" \
  --steps "$steps" | tee "$work/torch.log"
echo "== mrmf, second run"; ours second

echo "== side by side"
"$build/mrmf" --version || true
$venv/bin/python tests/peers/side_by_side.py "$work/first.log" "$work/torch.log" "$work/second.log"

echo "== layers beside oneDNN's own times"
OMP_NUM_THREADS=$threads "$build/mrmf" bench layers --length "$length" --batch "$batch" --threads "$threads"
