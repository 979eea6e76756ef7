#!/usr/bin/env bash
# The U-Net on simulated volumes: simulates the data, trains by every method of methods.txt until a validation Dice of
# 0.95, with three seeds, and prints what that cost. A run that is done is not made again, one that was stopped
# continues. Usage: jobs/experiments/unet/run.sh [BUILD]. Environment: FOLDER (runs/unet), METHODS, SEEDS ("1 2 3"),
# THREADS (1), WORDS (more KEY=VALUE for all runs).
set -euo pipefail -f  # no word is a pattern of file names
here=$(cd "$(dirname "$0")" && pwd)
mrmf=${1:-build}/mrmf
folder=${FOLDER:-runs/unet}
methods=${METHODS:-$(sed -n 's/^\([a-z-]*\): .*/\1/p' "$here/methods.txt" | tr '\n' ' ')}

train() {  # method, seed
  local words=() word of_method
  of_method=$(sed -n "s/^$1: //p" "$here/methods.txt")
  [ -n "$of_method" ] || { echo "unet: $here/methods.txt has no method '$1'" >&2; return 1; }
  [ ! -e "$folder/$1-$2/result.json" ] || return 0
  for word in $of_method "data.files=[\"$folder/volumes.h5\"]" "training.seed=$2" "run.folder=$folder/$1-$2" \
    "run.threads=${THREADS:-1}" ${WORDS:-}; do words+=(--set "$word"); done
  echo "== $1, seed $2"
  "$mrmf" train "$here/workstation.toml" "${words[@]}"
}

mkdir -p "$folder"
[ -e "$folder/volumes.h5" ] ||
  "$mrmf" simulate volumes --samples 120 --size 32 --classes 2 --noise 0.1 --train 0.8 --validation 0.18 --test 0.02 \
    --seed 1 --output "$folder/volumes.h5"
runs=()
for seed in ${SEEDS:-1 2 3}; do
  for method in $methods; do
    train "$method" "$seed"
    runs+=("$folder/$method-$seed")
  done
done
echo "== all of them"
"$mrmf" compare "${runs[@]}" | tee "$folder/table.txt"
"$mrmf" compare "${runs[@]}" --csv >"$folder/runs.csv"
