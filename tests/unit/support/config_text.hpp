// Configurations that several tests start from.
#pragma once

namespace mrmf {

inline constexpr const char* kExample = R"(
[data]
files      = ["neuron.h5"]
train      = { samples = "train_frames", labels = "train_unitStar_par" }
validation = { samples = "val_frames",   labels = "val_unitStar_par" }
layout     = "reinterpret"

[model]
preset = "neuron_inverter"

[training]
optimizer = { name = "adam", learning_rate = 2e-3, rule = "cosine" }
loss = "mae"
batch = 256
seed = 7
batch_norm = "local"

[method]
name        = "mrmf"
resolutions = [[4], [2], [1]]
top         = "interpolated"
moments     = "carry"
curve       = "run"
coarse      = { batch = 2048, rule = "constant" }
stop        = { coarse = { threshold = 2e-3, patience = 3 }, finetune = { epochs = 40 } }
target      = { validation_loss = 0.040 }

[[method.stages]]
coarse = { epochs = 8 }
[[method.stages]]
dense = { learning_rate = 5e-4 }

[run]
folder = "runs/two-fusions"
threads = 2
)";

inline constexpr const char* kSmallest = R"([data]
files = "neuron.h5"
train = { samples = "x", labels = "y" }
validation = { samples = "vx", labels = "vy" }
[model]
preset = "neuron_inverter"
)";

inline constexpr const char* kLayers = R"([data]
files = ["cosmo.h5"]
train = { samples = "x", labels = "y" }
validation = { files = ["val.h5"], samples = "x", labels = "y" }
[model]
cut = "flatten"
[[model.layers]]
type = "conv"
filters = 16
kernel = [3, 3, 3]
padding = "same"
initialiser = "glorot"
[[model.layers]]
type = "batch_norm"
name = "norm"
momentum = 0.01
epsilon = 1e-3
[[model.layers]]
type = "leaky_relu"
slope = 0.3
[[model.layers]]
type = "average_pool"
window = [2, 2, 2]
[[model.layers]]
type = "max_pool"
window = 3
stride = 2
[[model.layers]]
type = "conv"
filters = 32
kernel = 4
padding = [1, 0, [2, 3]]
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "dropout"
rate = 0.5
[[model.layers]]
type = "dense"
units = 4
[[model.layers]]
type = "tanh"
)";

}  // namespace mrmf
