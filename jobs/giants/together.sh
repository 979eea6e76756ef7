#!/bin/bash
# Trains all layers of untied reconstruction ICA of a size of run.sh at once, each for what it loses of its own input
# (docs/guide/giants.md):
#   jobs/giants/together.sh SIZE FOLDER
# In FOLDER, which may be one of run.sh: samples1.h5 if it is not there; together.toml and together, the configuration
# and the run; together/samples2.h5 and so on, on which each layer's share is measured as run.sh does it. $COUNT, $EPOCHS
# and $SEED are other numbers of crops and epochs and another seed, $RATE a learning rate of all layers. A run that was
# stopped goes on where it was: start it again. Remove "together" to try other settings. With JOINT=1 later layers train
# earlier ones, too; rates are then a tenth.
set -euo pipefail
usage() { sed -n '2,10s/^# \?//p' "$0"; exit "$1"; }
[ "${1:-}" = "--help" ] && usage 0
[ $# = 2 ] || usage 2
here=$(cd "$(dirname "$0")" && pwd)
program=${MRMF:-$here/../../build/mrmf} python=${PYTHON:-python3}
source "$here/layer.sh"
size_of "$1" || usage 2
count=${COUNT:-$count} epochs=${EPOCHS:-$epochs} seed=${SEED:-1} joint=${JOINT:-0}
last=${#kernels[@]}

# A layer's features go to the next one; a layer with the same weights puts its input together again. The network's
# output is that of the first, since the labels are the samples.
configuration() {
  local layers="" again="" terms="" parts="" from=input edge=$size channels=$channels
  local layer field length sizes values owner shared read=fixed slower=1
  [ "$joint" != 1 ] || read=norm slower=10
  for layer in $(seq "$last"); do
    field=${kernels[$((layer - 1))]} values=$((edge * edge * channels))
    length=$(row_length "$edge" "$channels" "$field" "$maps")
    sizes="filters = $maps, kernel = [$field, $field], row_length = $length"
    owner=rica$layer shared=""
    if [ "$layer" -lt "$last" ]; then
      owner=code$layer shared=", weights_of = \"code$layer\""
      layers+="  { type = \"rica\", name = \"code$layer\", from = \"$from\", $sizes, output = \"features\" },
  { type = \"l2_pool\", name = \"pool$layer\", window = $pool, stride = 1 },
  { type = \"local_contrast_norm\", name = \"norm$layer\", window = 5 },
"
      [ "$joint" = 1 ] || layers+="  { type = \"stop_gradient\", name = \"fixed$layer\" },
"
    fi
    again="  { type = \"rica\", name = \"rica$layer\", from = \"$from\", $sizes, sparsity = 0.1$shared },
$again"
    terms+="  { name = \"layer$layer\", output = \"rica$layer\", target = \"$from\", loss = \"mse\" },
"
    parts+="  { name = \"layer$layer\", layers = [\"$owner\"], learning_rate = $(awk "BEGIN { print ${RATE:-${rates[$((layer - 1))]}} * $values / $slower }") },
"
    from=$read$layer edge=$((edge - field + 1 - pool + 1)) channels=$maps
  done
  data_section samples1.h5
  cat <<END

[model]
layers = [
$layers$again]

[training]
batch = $batch
epochs = $epochs
seed = $seed
optimizer = { name = "sgd", momentum = 0.9 }
terms = [
$terms]
parts = [
$parts]

[run]
folder = "together"
END
}

mkdir -p "$2"; cd "$2"
make_samples
configuration > together.toml
[ -e together/result.json ] || { rm -f together/samples*.h5; "$program" train together.toml; }
samples=samples1.h5 model=together/checkpoints/final.h5 # the best epoch would be that of the first layer
for layer in $(seq "$last"); do
  name=code$layer next=together/samples$((layer + 1)).h5
  [ "$layer" -lt "$last" ] || name=rica$layer
  echo "layer $layer"
  "$python" "$here/features.py" share $model "$samples" --layer "$name"
  if [ "$layer" -lt "$last" ]; then
    [ -e "$next" ] || encode $model "$name" "${kernels[$((layer - 1))]}" "$samples" "$next"
    samples=$next
  fi
done
