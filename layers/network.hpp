// A network's structure: the list of layers for one resolution, their spans in the arenas, and which are bottom
// and which top; and its wiring, which says what each layer reads. Holds no tensor memory, so even a huge network is
// cheap to look at.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "layers/layer.hpp"
#include "layers/parts.hpp"
#include "layers/spec.hpp"

namespace mrmf {

// What each layer of a list reads, and where the list may be cut in two: names resolved to positions in the list.

/// For each layer (or unit) the outputs it reads, in the order of its `from`. 0 is the network's input, i + 1 the
/// output of layer i.
using Wiring = std::vector<std::vector<std::size_t>>;

/// The wiring of named layers. ConfigError, which names the layer: it reads a name that no layer has, that comes later,
/// or that stands twice in its list; it reads several outputs or one, and must read one or several; or nobody reads its
/// output, neither a layer nor a term of the loss.
Wiring connect(const std::vector<LayerSpec>& layers, const std::vector<LossTerm>& terms = {});

/// Sets LayerSpec::bias_in_norm of each convolution whose only reader is a batch norm. That one takes the mean over the
/// batch away, and the bias with it: nothing of training depends on the bias, and its gradient is zero. So the
/// convolution leaves it out. The batch norm counts it in its running mean, which is that of the sum, and takes it off
/// again where it uses that.
void leave_biases_to_norms(std::vector<LayerSpec>& layers, const Wiring& wiring,
                           const std::vector<TermInputs>& terms = {});

/// Whether a name of BottomSettings::layers stands for this layer, or for the one whose weights it shares.
bool names_layer(const std::string& name, const LayerSpec& layer);

/// Index of the first layer of the top: the layer of that name; if it is empty the first flatten, else the first dense
/// layer, else the end. The top reads of the bottom only its last output. ConfigError where the named cut would divide
/// a branch, with the nearest that do not; a default cut moves down to the nearest one.
std::size_t find_cut(const std::vector<LayerSpec>& layers, const Wiring& wiring, const std::string& name);

/// For each layer whether it is in the top. ConfigError as find_cut(), or where a name stands for no layer.
std::vector<bool> top_layers(const std::vector<LayerSpec>& layers, const Wiring& wiring, const BottomSettings& bottom);

struct NetworkSettings {
  Shape sample;                   ///< shape of one sample at the wanted resolution; n is ignored
  Index max_rows = 1;             ///< largest batch per rank
  std::vector<LayerSpec> layers;  ///< named (src/config/model_config.hpp names them)
  BottomSettings bottom;          ///< which of them a fusion transfers
  PartSettings parts{};           ///< what several parts train for; none: the output's loss is all there is
};

/// One layer of the list, with its spans in the parameter and state arenas.
struct LayerEntry {
  std::string name;
  LayerKind kind = LayerKind::relu;
  LayerSpec spec;  ///< with sizes for every axis, and bias_in_norm
  Shape input;     ///< shape of the input, the first one of several
  Footprint footprint;
  ArenaSpan params, state;
  bool top = false;
  std::unique_ptr<Layer> layer;
  Join* join = nullptr;  ///< the layer, if it has several inputs

  Shape output() const { return layer->output(); }
};

class Network {
 public:
  /// ConfigError when the layers do not fit the sample ("pool3: window 4 is larger than its input 3 ...").
  Network(Backend& backend, const NetworkSettings& settings);

  const std::vector<LayerEntry>& entries() const { return entries_; }
  const LayerEntry& entry(std::size_t i) const { return entries_[i]; }
  const Wiring& wiring() const { return wiring_; }  ///< what each layer reads
  const PartSettings& parts() const { return parts_; }
  /// What each of parts().terms reads.
  const std::vector<TermInputs>& term_inputs() const { return term_inputs_; }
  /// The layers that lead to the network's output, in their order: what a trained network needs. True for these.
  std::vector<bool> serving() const;
  std::size_t size() const { return entries_.size(); }

  Shape input() const { return input_; }  ///< n = max_rows
  Shape output() const { return entries_.back().output(); }
  /// As Wiring counts: 0 is the network's input, i + 1 the output of layer i.
  Shape output_numbered(std::size_t number) const { return number == 0 ? input_ : entries_[number - 1].output(); }
  Index params_size() const { return params_size_; }  ///< floats of the parameter arena, padding included
  Index state_size() const { return state_size_; }
  Index trainable() const;      ///< number of trainable parameters
  double flop() const;          ///< forward, one sample
  Index flat_features() const;  ///< inputs of the first layer after the flatten; 0 without one

 private:
  void add(Backend& backend, const LayerSpec& spec);

  Shape input_;
  Wiring wiring_;
  PartSettings parts_;
  std::vector<TermInputs> term_inputs_;
  std::vector<LayerEntry> entries_;
  Index params_size_ = 0, state_size_ = 0;
};

}  // namespace mrmf
