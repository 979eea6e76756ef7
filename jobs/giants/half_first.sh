#!/bin/bash
# Does it pay to learn a layer of untied reconstruction ICA on half the resolution first? Trains the first layer of a
# size of run.sh on samples1.h5 of that folder (docs/results/giants.md):
#   jobs/giants/half_first.sh SIZE FOLDER
# In FOLDER/half-first: the layer on the whole resolution; the layer on half of it, where an image costs a sixteenth;
# and on the whole resolution from there. Prints the unexplained share after every epoch, beside what training has cost
# until then, in epochs of the whole resolution. $SEED is the seed, $HALF_EPOCHS the epochs on half the resolution.
set -euo pipefail
usage() { sed -n '2,9s/^# \?//p' "$0"; exit "$1"; }
[ "${1:-}" = "--help" ] && usage 0
[ $# = 2 ] || usage 2
here=$(cd "$(dirname "$0")" && pwd)
program=${MRMF:-$here/../../build/mrmf} python=${PYTHON:-python3}
source "$here/layer.sh"
size_of "$1" || usage 2
case $1 in
  test)      half=4 ;;
  small)     half=16 ;;
  hundredth) half=8 ;;
  *) usage 2 ;;
esac
rate=${RATE:-0.0008} in_place=true whole_epochs=$epochs
half=${HALF_EPOCHS:-$half} seed=${SEED:-1}
cd "$2"; mkdir -p half-first; cd half-first

folder() { case $1 in whole) echo "whole-$seed" ;; *) echo "$1-$seed-of-$half" ;; esac; }
layer() {  # name, samples, edge, field, epochs, start
  samples=$2 edge=$3 field=$4 epochs=$5 start=${6:-} folder=$(folder "$1")
  layer_configuration > "$1.toml"
}
train() { [ -e "$(folder "$1")/result.json" ] || "$program" train "$1.toml"; }

if [ ! -e half.h5 ]; then
  "$python" "$here/features.py" halve ../samples1.h5 -o making.h5
  mv making.h5 half.h5
fi
layer whole ../samples1.h5 "$size" "${kernels[0]}" "$whole_epochs"
train whole
layer half half.h5 $((size / 2)) $((kernels[0] / 2)) "$half"
train half
layer after ../samples1.h5 "$size" "${kernels[0]}" "$whole_epochs"
"$python" "$here/features.py" finer "$(folder half)" --row-length "$(row_length "$edge" "$channels" "$field" "$maps")" -o start.safetensors
"$program" import start.safetensors -o start.h5 --config after.toml --overwrite
layer after ../samples1.h5 "$size" "${kernels[0]}" "$whole_epochs" start.h5
train after
"$python" - "$(folder whole)" "$(folder after)" "$half" <<'END'
import json, sys
def losses(folder):
    return [json.loads(line)["validation_loss"] for line in open(f"{folder}/epochs.jsonl")]
whole, after, before = losses(sys.argv[1]), losses(sys.argv[2]), int(sys.argv[3]) / 16
print(f"{'cost in epochs':>14} {'whole':>8} {'half first':>11}")
for epoch, (a, b) in enumerate(zip(whole, after), 1):
    print(f"{epoch:>14} {a:8.4f}")
    print(f"{epoch + before:>14.2f} {'':8} {b:11.4f}")
END
