#!/usr/bin/env bash
# Training speed of mrmf beside the newest PyTorch and JAX, measured in one run on this machine, then our layers beside
# oneDNN's own times, and one table of all. Usage: tests/peers/bench.sh [BUILD] [NETWORK]: neuron_inverter, cosmoflow
# (cubes of 64^3 and 128^3), plane (64x48 and 28x28), resnet or unet3d; all of them unless given. Environment: SAMPLE and
# BATCH (of one network), THREADS, STEPS, VARIANTS (of PyTorch), JAX=off.
# Ours runs before and after the others: the spread of the two says how quiet the machine was.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build} network=${2:-all} threads=${THREADS:-2}
rows=(
  "neuron_inverter 1600x3 512 9"
  "cosmoflow 64x64x64x4 8 7"
  "cosmoflow 128x128x128x4 2 5"
  "plane 64x48x1 64 99"
  "plane 28x28x1 64 199"
  "resnet 64x64x3 32 19"
  "unet3d 64x64x64x1 2 7"
)
venv=.venv-peers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "bench: $*" >&2; exit 1; }

have() { [ -x $venv/bin/python ] && $venv/bin/python -c "import $1" 2>/dev/null; }

make_venv() {
  local python attempt
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
}

install() {  # what for people, what to import, packages
  local name=$1 modules=$2
  shift 2
  have "$modules" && return
  echo "bench: installing $name in $venv (some minutes)"
  make_venv
  $venv/bin/pip install --quiet "$@" >"$work/pip.log" 2>&1 ||
    { tail -n 5 "$work/pip.log" >&2; fail "cannot install $name with pip (network? disk? 5.5 GB are needed)"; }
  have "$modules" || fail "$name is installed in $venv but cannot be imported; remove $venv and try again"
}

ours() {  # what to measure, options
  local source=(--preset "$network")
  [ "$network" != plane ] || source=(tests/peers/plane.toml)
  OMP_NUM_THREADS=$threads "$build/mrmf" bench "$1" "${source[@]}" --sample "$sample" --batch "$batch" \
    --threads "$threads" --steps "$steps" "${@:2}"
}

pytorch() {  # variants; none: all
  $venv/bin/python tests/peers/torch/bench_torch.py --network "$network" --sample "$sample" --batch "$batch" \
    --threads "$threads" --steps "$steps" ${1:+--variants "$@"}
}

compare() {  # network, sample, batch, steps
  local network=$1 sample=$2 batch=$3 steps=$4 log=$work/$1-$2
  echo; echo "== $network, $sample, batch $batch: mrmf, first run"
  ours training | tee "$log.first"
  echo "== PyTorch"
  # shellcheck disable=SC2086  # VARIANTS is a list of words
  pytorch ${VARIANTS:-} | tee "$log.torch" || {
    echo "PyTorch ended early, perhaps by a crash in what it compiled; once more, eager alone"
    pytorch eager_channels_last | tee "$log.torch"
  }
  if [ "$JAX" = on ]; then
    echo "== JAX"
    $venv/bin/python tests/peers/jax/bench_jax.py --network "$network" --sample "$sample" --batch "$batch" \
      --threads "$threads" --steps "$steps" | tee "$log.jax" || { echo "JAX ended early: no number of it"; rm -f "$log.jax"; }
  fi
  echo "== mrmf, second run"; ours training | tee "$log.second"
  if "$build/mrmf" doctor | grep -q '^products .*bf16'; then
    echo "== mrmf in bf16"; ours training --precision bf16 | tee "$log.bf16"
  fi
  echo "== layers beside oneDNN's own times"; ours layers | tee "$log.layers"
}

case ${JAX:=on} in on | off) ;; *) fail "JAX is on or off, not '$JAX'" ;; esac
[ "$network" = all ] || printf '%s\n' "${rows[@]}" | grep -q "^$network " ||
  { echo "bench: no network '$network'; give neuron_inverter, cosmoflow, plane, resnet or unet3d" >&2; exit 2; }
[ -x "$build/mrmf" ] || fail "$build/mrmf is missing; run make first"
install PyTorch "torch, numpy, h5py" torch numpy h5py
[ "$JAX" = off ] || install JAX "jax, flax, optax" jax flax optax

measured=()
for row in "${rows[@]}"; do
  read -r name sample batch steps <<<"$row"
  [ "$network" = all ] || [ "$network" = "$name" ] || continue
  if [ -n "${SAMPLE:-}" ] && [ ${#measured[@]} -gt 0 ]; then continue; fi
  compare "$name" "${SAMPLE:-$sample}" "${BATCH:-$batch}" "${STEPS:-$steps}"
  measured+=("$work/$name-${SAMPLE:-$sample}")
done
echo; echo "== exported networks in PyTorch beside mrmf predict: relative deviations"
$venv/bin/python -B tests/peers/torch/exported.py --build "$build"
echo; echo "== side by side"
"$build/mrmf" --version || true
$venv/bin/python tests/peers/side_by_side.py "${measured[@]}"
