// A network's structure: the list of layers for one resolution, their places in the arenas, and which are bottom
// and which top. Holds no tensor memory, so even a huge network is cheap to look at.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/layer.hpp"
#include "layers/spec.hpp"
#include "layers/wiring.hpp"

namespace mrmf {

struct NetworkSettings {
  Shape sample;                   ///< shape of one sample at the wanted resolution; n is ignored
  Index max_rows = 1;             ///< largest batch per rank
  std::vector<LayerSpec> layers;  ///< named (presets.hpp names them)
  BottomSettings bottom;          ///< which of them a fusion transfers
};

/// One layer of the list, with its places in the parameter and state arenas.
struct Entry {
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

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry& entry(std::size_t i) const { return entries_[i]; }
  const Wiring& wiring() const { return wiring_; }  ///< what each layer reads
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
  std::vector<Entry> entries_;
  Index params_size_ = 0, state_size_ = 0;
};

}  // namespace mrmf
