#!/bin/bash
# shellcheck disable=SC2034,SC2154
# What jobs/giants/run.sh and half_first.sh share; read by both with "source", never run by itself.

# Sizes of networks, by name: edge and channels of an image, maps and field of each layer, pooling, images and epochs.
size_of() {
  images=()
  case $1 in
    test)      size=32 channels=1 maps=8  pool=3 kernels=(8 6 4)    count=192  epochs=2  batch=32 images=(--grey --synthetic) ;;
    small)     size=32 channels=3 maps=16 pool=3 kernels=(8 6 4)    count=4096 epochs=10 batch=64 ;;
    hundredth) size=64 channels=3 maps=21 pool=5 kernels=(18 18 18) count=2048 epochs=3  batch=64 ;;
    digits)    size=28 channels=1 maps=16 pool=3 kernels=(8)        count=5000 epochs=10 batch=64 images=(--digits) ;;
    *) return 1 ;;
  esac
}

# Length of a layer's rows of weights: shorter than 1 where there are more features than values, since the loss is a
# mean over values.
row_length() {  # edge, channels, field, maps
  local values=$(($1 * $1 * $2)) features=$((($1 - $3 + 1) * ($1 - $3 + 1) * $4))
  awk "BEGIN { print ($features > $values ? sqrt($values / $features) : 1) }"
}

# Configuration of one layer of reconstruction ICA on standard output. Reads: samples (file), edge, channels, maps, field,
# batch, epochs, rate (times the values of a sample), in_place, folder; start (model to begin with), seed.
layer_configuration() {
  cat <<END
[data]
files = "$samples"
train = { samples = "train", labels = "train" }
validation = { samples = "validation", labels = "validation" }

[model]
layers = [{ type = "rica", name = "rica1", filters = $maps, kernel = [$field, $field], sparsity = 0.1, row_length = $(row_length "$edge" "$channels" "$field" "$maps") }]
${start:+start = \"$start\"}

[training]
batch = $batch
epochs = $epochs
seed = $seed
update_in_place = $in_place
optimizer = { name = "sgd", learning_rate = $(awk "BEGIN { print $rate * $edge * $edge * $channels }"), momentum = 0.9 }

[run]
folder = "$folder"
END
}
