#!/bin/bash
# shellcheck disable=SC2034,SC2154
# What jobs/giants/run.sh, together.sh and half_first.sh share; read by them with "source", never run by itself.

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
  rates=(0.0008 0.0008 0.0008)                          # of each layer, times the values of a sample
  [ "$1" != hundredth ] || rates=(0.0008 0.0001 0.0001) # large fields of smooth features leave less room
}

# Length of a layer's rows of weights: shorter than 1 where there are more features than values, since the loss is a
# mean over values.
row_length() {  # edge, channels, field, maps
  local values=$(($1 * $1 * $2)) features=$((($1 - $3 + 1) * ($1 - $3 + 1) * $4))
  awk "BEGIN { print ($features > $values ? sqrt($values / $features) : 1) }"
}

# The samples of a file are what is learnt.
data_section() {  # file
  cat <<END
[data]
files = "$1"
train = { samples = "train", labels = "train" }
validation = { samples = "validation", labels = "validation" }
END
}

# Configuration of one layer of reconstruction ICA on standard output. Reads: samples (file), edge, channels, maps, field,
# batch, epochs, rate (times the values of a sample), in_place, folder; start (model to begin with), seed.
layer_configuration() {
  data_section "$samples"
  cat <<END

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

# Samples of the first layer. Reads: python, here, size, count, images.
make_samples() {
  [ ! -e samples1.h5 ] || return 0
  "$python" "$here/images.py" --size "$size" --count "$count" "${images[@]}" -o making.h5
  mv making.h5 samples1.h5
}

# Samples of the next layer: features, pooled over places, with their contrast normalised. Reads: program, python, here,
# maps, pool.
encode() {  # model, its layer, field, samples, file to write
  {
    data_section "$4"
    cat <<END

[model]
layers = [
  { type = "locally_connected", name = "code", filters = $maps, kernel = [$3, $3] },
  { type = "l2_pool", window = $pool, stride = 1 },
  { type = "local_contrast_norm", window = 5 },
]
END
  } > encoder.toml
  "$python" "$here/features.py" encoder "$1" --layer "$2" -o encoder.safetensors
  "$program" import encoder.safetensors -o encoder.h5 --config encoder.toml --overwrite
  for split in train validation; do
    "$program" predict encoder.h5 --split $split -o $split.h5 --overwrite
  done
  "$python" "$here/features.py" gather train.h5 validation.h5 -o making.h5
  mv making.h5 "$5"
  rm -f encoder.* train.h5 validation.h5
}
