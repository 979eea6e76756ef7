// Writes networks with normalisation of samples and of labels as ONNX and safetensors files, with samples and what must
// come out of them: export_maps FOLDER. The maps are done here by themselves, in double. For test_onnx.py and the
// comparison with PyTorch.
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/random.hpp"
#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "src/config/model_config.hpp"
#include "src/export/exported_model.hpp"
#include "src/export/onnx.hpp"

using namespace mrmf;

namespace {

struct Case {
  std::string name;
  ChannelMap samples, labels;
  SampleLayout layout = SampleLayout::as_stored;
  bool fields = false;  // outputs with positions
};

constexpr Index rows = 9, length = 6, channels = 3;

LayerSpec layer(LayerKind kind, Index units = 0) {
  LayerSpec spec;
  spec.kind = kind;
  spec.units = units;
  return spec;
}

std::vector<LayerSpec> layers_of(bool fields) {
  LayerSpec conv = layer(LayerKind::conv, fields ? 2 : 4);
  conv.window = {1, 3, 3};
  conv.same_padding = true;
  std::vector<LayerSpec> layers{conv, layer(LayerKind::tanh)};
  if (!fields) layers.insert(layers.end(), {layer(LayerKind::flatten), layer(LayerKind::dense, 2)});
  name_layers(layers);
  return layers;
}

// From numbers of the network to those of files, and back.
double done(const ChannelMap& map, std::size_t c, double x) {
  if (map.log1p) x = std::log1p(x);
  return map.scale.empty() ? x : x * double{map.scale[c]} + double{map.shift[c]};
}
double undone(const ChannelMap& map, std::size_t c, double y) {
  if (!map.scale.empty()) y = (y - double{map.shift[c]}) / double{map.scale[c]};
  return map.log1p ? std::expm1(y) : y;
}

void write(const Case& one, const std::string& folder) {
  const std::unique_ptr<Backend> backend = make_reference_backend();
  ModelSettings settings;
  const Index line = channels + (one.samples.mask ? 1 : 0);
  const Shape sample{.n = rows, .spatial = {1, length, length}, .channels = line, .axes = 2};
  settings.network = {sample, rows, layers_of(one.fields), {}};
  Model model(*backend, settings);
  ExportedModel whole = exported(*backend, model);
  whole.samples = one.samples, whole.labels = one.labels, whole.layout = one.layout;
  whole.facts = {{"program", "mrmf"}, {"run", one.name}, {"resolution", "[1,1]"}};

  Rng rng(17);
  std::vector<float> stored(static_cast<std::size_t>(rows * length * length * channels));
  std::vector<float> x(static_cast<std::size_t>(sample.count()), 1);
  const std::size_t positions = length * length, per_sample = positions * channels;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    constexpr double sizes[] = {1e-6, 3, 4e5};  // channels that are orders apart
    const double unit = one.samples.empty() ? 1 : sizes[i % channels];
    stored[i] = static_cast<float>(unit * rng.uniform(0.2, 1));
    const std::size_t within = i % per_sample, turned = within % positions * channels + within / positions;
    const std::size_t position = i / channels * static_cast<std::size_t>(line);
    float& seen = x[one.layout == SampleLayout::as_stored ? position + i % channels : i - within + turned];
    seen = static_cast<float>(done(one.samples, i % channels, double{stored[i]}));
    if (one.samples.fill.empty() || rng.uniform(0, 1) > 0.2) continue;
    stored[i] = std::numeric_limits<float>::quiet_NaN();
    seen = one.samples.fill[i % channels];
    if (one.samples.mask) x[position + channels] = 0;
  }
  const StepContext step{.training = false};
  backend->begin(step);
  const ConstTensor y = model.forward(step, {sample, x});
  std::vector<float> outputs(y.data.begin(), y.data.end());
  const auto labels = static_cast<std::size_t>(y.shape.channels);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = static_cast<float>(undone(one.labels, i % labels, double{outputs[i]}));

  const std::string base = folder + "/" + one.name;
  Hdf5Output file(base + ".h5", Replace::nothing, Comm::self());
  file.create_dataset("x", {rows, length, length, channels});
  file.write_rows("x", 0, stored);
  file.create_dataset("prediction",
                      one.fields ? std::vector<Index>{rows, length, length, 2} : std::vector<Index>{rows, 2});
  file.write_rows("prediction", 0, outputs);
  file.commit();
  write_file(base + ".onnx", onnx_bytes(whole), Replace::nothing);
  write_file(base + ".safetensors", safetensors_bytes(whole), Replace::nothing);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: export_maps FOLDER\n");
    return 2;
  }
  const MpiEnvironment session(argc, argv);
  const ChannelMap by_channel{.log1p = false, .scale = {2e6F, 0.7F, 5e-6F}, .shift = {-1, -1.5F, -1.2F}};
  const ChannelMap far{.log1p = false, .scale = {3e-4F, 20}, .shift = {-3, 1}};
  const ChannelMap logarithm{.log1p = true, .scale = {}, .shift = {}};
  ChannelMap both = by_channel, both_far = far;
  both.log1p = both_far.log1p = true;
  both.scale[2] = 0.1F;
  both_far.scale = {0.4F, 3}, both_far.shift = {-2, 0.5F};
  ChannelMap filled = by_channel, masked = both;
  filled.fill = {0, 0.5F, -1}, masked.fill = {0, 0, 0}, masked.mask = true;
  const ChannelMap only_filled{.log1p = false, .scale = {}, .shift = {}, .fill = {1, 2, 3}, .mask = true};
  for (const Case& one :
       {Case{"filled", filled, far}, Case{"masked", masked, far, SampleLayout::as_stored, true},
        Case{"only-filled", only_filled, {}}, Case{"linear", by_channel, far}, Case{"logarithm", logarithm, logarithm},
        Case{"both", both, both_far, SampleLayout::reinterpret},
        Case{"fields", both, far, SampleLayout::as_stored, true},
        Case{"labels-alone", {}, both_far, SampleLayout::as_stored, true}})
    write(one, argv[1]);
  return 0;
}
