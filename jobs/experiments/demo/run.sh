#!/usr/bin/env bash
# The demo: simulates the data of both applications and trains each network three times: by the tuned baseline, by the
# paper's one fusion, and by the schedule that the program chooses (auto). Its last lines say what was saved at equal
# loss, against the baselines of docs/results/map, which have other lengths.
# Usage: jobs/experiments/demo/run.sh [BUILD]. Environment: DEMO (neuron, cubes or all), FOLDER (runs/demo), METHODS,
# SEED (1), SAMPLES (as many for each application, to try the script in a FOLDER of its own).
set -euo pipefail -f  # no word of METHODS is a pattern of file names
cd "$(dirname "$0")/../../.."
mrmf=${1:-build}/mrmf
folder=${FOLDER:-runs/demo}
methods=${METHODS:-"baseline one-fusion auto"}
seed=${SEED:-1}
demo=${DEMO:-all}
started=$SECONDS

declare -A simulate=(
  [cubes]="cosmology --samples ${SAMPLES:-1280} --size 32 --box 256 --method lpt --seed 1 --output $folder/cubes"
  [neuron]="neuron --samples ${SAMPLES:-16000} --cells 8 --seed 1 --output $folder/neuron.h5")
declare -A epochs=([cubes]=10 [neuron]=6)
declare -A baselines=([cubes]=docs/results/map/cubes-1280.csv [neuron]=docs/results/map/neuron-16000.csv)
# Cubes at half of the baseline's cost, neurons at the same cost.
declare -A one_fusion=(
  [cubes]="method.resolutions=[[2,2,2],[1,1,1]] method.stop.coarse.epochs=8 method.stop.finetune.epochs=3"
  [neuron]="method.resolutions=[[2],[1]] method.stop.coarse.epochs=6 method.stop.finetune.epochs=2")

method_words() {  # application, method
  case $2 in
    baseline | auto) echo "method.name=$2" ;;
    one-fusion) echo "method.name=mrmf method.top=dense method.coarse.rule=constant method.dense.rule=constant" \
      "method.stop.dense.epochs=1 ${one_fusion[$1]}" ;;
    *) echo "demo: no method '$2'; there are baseline, one-fusion and auto" >&2; return 1 ;;
  esac
}

data_words() {  # application
  if [ "$1" = neuron ]; then
    echo "data.files=[\"$folder/neuron.h5\"]"
  else  # the lists of files that the simulator wrote
    sed -n 's/ //g; s/^files=/data.files=/p; s/.*,files=\(\[.*\]\)}$/data.validation.files=\1/p' "$folder/cubes/data.toml"
  fi
}

run_all() {  # application
  local method word words of_method
  [ -e "$folder/$1.done" ] || "$mrmf" simulate ${simulate[$1]} --overwrite
  touch "$folder/$1.done"
  for method in $methods; do
    words=()
    of_method=$(method_words "$1" "$method")  # by itself, so that its failure ends the script
    for word in $of_method $(data_words "$1"); do words+=(--set "$word"); done
    echo
    echo "== $1: $method"
    "$mrmf" train "jobs/experiments/demo/$1.toml" --overwrite "${words[@]}" --set "run.folder=$folder/$1-$method-$seed" \
      --set "training.epochs=${epochs[$1]}" --set "training.seed=$seed"
  done
}

show() {  # application
  local runs=() method
  for method in $methods; do runs+=("$folder/$1-$method-$seed"); done
  echo
  echo "== $1: all of them"
  "$mrmf" compare "${runs[@]}" --baselines "${baselines[$1]}" | tee "$folder/$1.txt"
  "$mrmf" plot "${runs[@]}" --overwrite --x gflop --output "$folder/$1.png"
}

[ "$demo" != all ] || demo="cubes neuron"
for application in $demo; do
  [ -n "${simulate[$application]:-}" ] || {
    echo "demo: DEMO=$application is none of neuron, cubes and all" >&2
    exit 2
  }
done
mkdir -p "$folder"
for application in $demo; do run_all "$application"; done
for application in $demo; do show "$application"; done
echo
echo "The demo took $((SECONDS - started)) s and drew$(for application in $demo; do echo -n " $folder/$application.png"; done)."
echo "What was saved, against baselines of other lengths (docs/results/map)."
echo ">=: no baseline ends as low, so at least that much. <=: every baseline ends lower, so nothing is shown to be saved."
for application in $demo; do sed -n "s/^\(.*of the arithmetic saved at equal loss\)/$application, \1/p" "$folder/$application.txt"; done
