// Layers without parameters that combine, cut or reshape activations: add and concat (the joins), slice, stop_gradient,
// flatten.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "layers/geometry_and_reach.hpp"
#include "layers/layer.hpp"

namespace mrmf {

// Layers of several inputs: their sum, and their channels one after the other.

namespace {

/// The name of an input, as far as the spec has one.
std::string input_name(const LayerSpec& spec, std::size_t i) {
  return i < spec.from.size() ? spec.from[i] : fmt::format("input {}", i + 1);
}

class Add final : public Join {
 public:
  Add(Backend& backend, std::span<const Shape> in, const LayerSpec& spec) : backend_(backend), output_(in[0]) {
    for (std::size_t i = 1; i < in.size(); ++i)
      require(in[i] == in[0], spec,
              fmt::format("{} gives {} and {} gives {}; only equal shapes are added", input_name(spec, 0),
                          to_string(in[0]), input_name(spec, i), to_string(in[i])));
  }

  std::string signature() const override { return "add"; }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = true, .reads_input = false, .dx_is_dy = true};
  }

  void join(std::span<const ConstTensor> x, Tensor y) override {
    if (x.size() == 1) return backend_.reshape(x[0], y);
    backend_.add(x[0], x[1], y);
    for (const ConstTensor& more : x.subspan(2)) backend_.add(y, more, y);
  }
  /// Copies nothing where a gradient is dy's own memory.
  void join_backward(ConstTensor dy, std::span<const Tensor> dx) override {
    for (const Tensor& part : dx)
      if (!part.data.empty()) backend_.reshape(dy, part);
  }

 private:
  Backend& backend_;
  Shape output_;
};

/// Copies what does not lie in its slice of y already.
class Concat final : public Join {
 public:
  Concat(Backend& backend, std::span<const Shape> in, const LayerSpec& spec) : backend_(backend), output_(in[0]) {
    channels_.push_back(in[0].channels);
    for (std::size_t i = 1; i < in.size(); ++i) {
      require(in[i].axes == in[0].axes && in[i].spatial == in[0].spatial, spec,
              fmt::format("{} gives {} and {} gives {}; they may differ in their channels alone{}", input_name(spec, 0),
                          to_string(in[0]), input_name(spec, i), to_string(in[i]),
                          in[0].axes > 0 ? " (a pooling drops the last position of an odd axis: use samples and "
                                           "resolutions that all of them divide)"
                                         : ""));
      channels_.push_back(in[i].channels);
      output_.channels += in[i].channels;
    }
  }

  std::string signature() const override { return fmt::format("concat {}", fmt::join(channels_, "+")); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    Footprint footprint{.params = {}, .state = {}, .cache = 0, .reads_input = false};
    if (backend_.accepts_slices()) {
      footprint.accepted_slices.x = true;
      footprint.parts = channels_;
    }
    return footprint;
  }

  void join(std::span<const ConstTensor> x, Tensor y) override {
    Index to = 0;
    for (const ConstTensor& part : x) {
      if (!is_slice(part, y, to)) backend_.copy_channels(part, 0, y, to, part.shape.channels);
      to += part.shape.channels;
    }
    MRMF_CHECK(to == output_.channels, "a concat of other inputs than it was made for");
  }
  void join_backward(ConstTensor dy, std::span<const Tensor> dx) override {
    Index from = 0;
    for (const Tensor& part : dx) {
      if (!part.data.empty() && !is_slice(part, dy, from))
        backend_.copy_channels(dy, from, part, 0, part.shape.channels);
      from += part.shape.channels;
    }
  }

 private:
  /// Whether `part` is the channels of `whole` from `first` on.
  static bool is_slice(const ConstTensor& part, const ConstTensor& whole, Index first) {
    return part.pitch != 0 && part.data.data() == whole.data.data() + first;
  }

  Backend& backend_;
  Shape output_;
  std::vector<Index> channels_;  // channels of each input
};

}  // namespace

std::unique_ptr<Join> make_join(Backend& backend, std::span<const Shape> in, const LayerSpec& spec) {
  MRMF_CHECK(!in.empty(), "a join of nothing");
  if (spec.kind == LayerKind::concat) return std::make_unique<Concat>(backend, in, spec);
  return std::make_unique<Add>(backend, in, spec);
}

// A join that has one input, as a list may have it.
std::unique_ptr<Layer> make_join(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return make_join(backend, {&in, 1}, spec);
}

// Some of a layer's channels, and a layer behind which nothing trains.

namespace {

class Slice final : public Layer {
 public:
  Slice(Backend& backend, const Shape& in, const LayerSpec& spec) : backend_(backend), output_(in), first_(spec.first) {
    require(spec.units > 0 && spec.first + spec.units <= in.channels, spec,
            fmt::format("takes channels {} to {} of an input that has {}; take fewer", spec.first,
                        spec.first + spec.units - 1, in.channels));
    output_.channels = spec.units;
  }

  std::string signature() const override { return fmt::format("slice {}+{}", first_, output_.channels); }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = 0, .reads_input = false}; }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override {
    backend_.copy_channels(x, first_, y, 0, output_.channels);
  }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (dx.data.empty()) return;
    backend_.fill(dx.data, 0);
    backend_.copy_channels(dy, 0, dx, first_, output_.channels);
  }

 private:
  Backend& backend_;
  Shape output_;
  Index first_;
};

/// Its output is its input, and the gradient of its input is zero.
class StopGradient final : public Layer {
 public:
  StopGradient(Backend& backend, const Shape& in) : backend_(backend), output_(in) {}

  std::string signature() const override { return "stop_gradient"; }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = true, .reads_input = false};
  }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { backend_.reshape(x, y); }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor, Tensor dx) override {
    if (!dx.data.empty()) backend_.fill(dx.data, 0);
  }

 private:
  Backend& backend_;
  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> make_slice(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<Slice>(backend, in, spec);
}

std::unique_ptr<Layer> make_stop_gradient(Backend& backend, const Shape& in, const LayerSpec&, const LayerPosition&) {
  return std::make_unique<StopGradient>(backend, in);
}

// Flatten: positions and channels become one vector of features.

namespace {

/// Flatten. In channels-last order it only changes the shape, so it does nothing in place, unless the backend pads the
/// channels of one of the two shapes.
class Flatten final : public Layer {
 public:
  Flatten(Backend& backend, const Shape& in)
      : backend_(backend),
        output_{.n = in.n, .channels = in.per_sample()},
        identity_(backend.stored(in).per_sample() == in.per_sample() && backend.stored(output_) == output_) {}

  std::string signature() const override { return "flatten"; }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = identity_, .identity = identity_, .reads_input = false};
  }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { backend_.reshape(x, y); }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) backend_.reshape(dy, dx);
  }

 private:
  Backend& backend_;
  Shape output_;
  bool identity_;
};

}  // namespace

std::unique_ptr<Layer> make_flatten(Backend& backend, const Shape& in, const LayerSpec&, const LayerPosition&) {
  return std::make_unique<Flatten>(backend, in);
}

}  // namespace mrmf
