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
case $1 in
  test)      size=32 channels=1 maps=8  kernel=8  epochs=2  half=4  batch=32 ;;
  small)     size=32 channels=3 maps=16 kernel=8  epochs=10 half=16 batch=64 ;;
  hundredth) size=64 channels=3 maps=21 kernel=18 epochs=3  half=8  batch=64 ;;
  *) usage 2 ;;
esac
half=${HALF_EPOCHS:-$half} seed=${SEED:-1}
cd "$2"; mkdir -p half-first; cd half-first

folder() { case $1 in whole) echo "whole-$seed" ;; *) echo "$1-$seed-of-$half" ;; esac; }
layer() {  # name, samples, edge, kernel, epochs, start
  local values=$(($3 * $3 * channels)) features=$((($3 - $4 + 1) * ($3 - $4 + 1) * maps))
  length=$(awk "BEGIN { print ($features > $values ? sqrt($values / $features) : 1) }")
  cat > "$1.toml" <<END
[data]
files = "$2"
train = { samples = "train", labels = "train" }
validation = { samples = "validation", labels = "validation" }

[model]
layers = [{ type = "rica", name = "rica1", filters = $maps, kernel = [$4, $4], sparsity = 0.1, row_length = $length }]
${6:+start = \"$6\"}

[training]
batch = $batch
epochs = $5
seed = $seed
update_in_place = true
optimizer = { name = "sgd", learning_rate = $(awk "BEGIN { print ${RATE:-0.0008} * $values }"), momentum = 0.9 }

[run]
folder = "$(folder "$1")"
END
}
train() { [ -e "$(folder "$1")/result.json" ] || "$program" train "$1.toml"; }

if [ ! -e half.h5 ]; then
  "$python" "$here/features.py" halve ../samples1.h5 -o making.h5
  mv making.h5 half.h5
fi
layer whole ../samples1.h5 $size $kernel $epochs
train whole
layer half half.h5 $((size / 2)) $((kernel / 2)) "$half"
train half
layer after ../samples1.h5 $size $kernel $epochs
"$python" "$here/features.py" finer "$(folder half)" --row-length "$length" -o start.safetensors
"$program" import start.safetensors -o start.h5 --config after.toml --overwrite
layer after ../samples1.h5 $size $kernel $epochs start.h5
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
