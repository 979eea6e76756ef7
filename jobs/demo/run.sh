#!/usr/bin/env bash
# The demo: simulates neurons, trains the Neuron Inverter network by every method, prints the paper's table.
# Usage: jobs/demo/run.sh [BUILD]. Environment: FOLDER (runs/demo), METHODS, SEED (1).
set -euo pipefail -f  # no word of METHODS is a pattern of file names
cd "$(dirname "$0")/../.."
mrmf=${1:-build}/mrmf
folder=${FOLDER:-runs/demo}
methods=${METHODS:-"baseline mrt one-fusion two-fusions interpolated"}
seed=${SEED:-1}
mkdir -p "$folder"

started=$SECONDS
data=$folder/neuron.h5
[ -f "$data" ] || "$mrmf" simulate neuron --samples 16000 --cells 8 --seed 1 --output "$data"

runs=()
for method in $methods; do
  run=$folder/$method-$seed
  runs+=("$run")
  echo
  echo "== $method"
  "$mrmf" train "jobs/demo/$method.toml" --overwrite --set "data.files=[\"$data\"]" --set "run.folder=$run" \
    --set "training.seed=$seed"
done

echo
echo "== all of them"
"$mrmf" compare "${runs[@]}"
"$mrmf" plot "${runs[@]}" --overwrite --output "$folder/validation-loss.png"
echo "plot: $folder/validation-loss.png; the demo took $((SECONDS - started)) s"
