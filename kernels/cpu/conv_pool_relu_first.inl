// The weight gradient of a first layer (included in conv_pool_relu.inl, inside its anonymous namespace): no data
// gradient is wanted and the field is short, so lists of entries would cost more than the work. Instead every lane is
// an output channel, and the input that its winner met is picked by a shuffle from the (at most four) candidates.

constexpr long max_first_field = 12;  // its accumulators fit 16 registers

bool is_first_layer(const Geometry& g, const Backward& f) {
  return !f.with_dx && g.positions <= 4 && g.field <= max_first_field;
}

// candidates[window][i][p] = the input that element i of the field meets at position p of the window.
void list_candidates(const Geometry& g, const Backward& f, const Scratch& s, long begin, long end) {
  typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
  const long count = g.positions, second = count > 1 ? g.input_offset[1] : 0, third = count > 2 ? g.input_offset[2] : 0,
             fourth = count > 3 ? g.input_offset[3] : 0;
  float* to = s.candidates;
  for (long window = begin; window < end; ++window)
    for (long line = 0; line < g.kernel_lines; ++line) {
      const float* x = f.x + window * g.window * g.in_channels + line * g.line;
      for (long i = 0; i < g.run; ++i, to += 4)
        *reinterpret_cast<Four*>(to) = Four{x[i], x[second + i], x[third + i], x[fourth + i]};
    }
}

// Channels [first, first + lanes) of one window: dy where ReLU was active, and the winners.
struct WindowGradient {
  Vector gradient;
  Mask winner;
};
inline WindowGradient load_window(const float* y, const float* dy, const unsigned char* winner) {
  return {load(y) <= 0 ? Vector{} : load(dy),
          __builtin_convertvector(*reinterpret_cast<const BytesAnywhere*>(winner), Mask)};
}
// The same where a whole vector would reach past the end of the row of windows.
inline WindowGradient load_window_end(const float* y, const float* dy, const unsigned char* winner, long count) {
  WindowGradient w{};
  for (long lane = 0; lane < count; ++lane) {
    w.gradient[lane] = y[lane] <= 0 ? 0.0F : dy[lane];
    w.winner[lane] = winner[lane];
  }
  return w;
}

template <long Field>
void first_weight_gradient(const Geometry& g, const Backward& f, const Scratch& s, long begin, long end, long first) {
  Vector sum[Field] = {}, bias{};
  const long count = g.out_channels - first < lanes ? g.out_channels - first : lanes;
  const float* candidates = s.candidates;
  for (long window = begin; window < end; ++window, candidates += Field * 4) {
    const long at = window * g.out_channels + first;
    const bool whole = at + lanes <= g.windows * g.out_channels;  // else it would read past the row
    const WindowGradient w = whole ? load_window(f.y + at, f.dy + at, f.winner + at)
                                   : load_window_end(f.y + at, f.dy + at, f.winner + at, count);
    bias += w.gradient;
    for (long i = 0; i < Field; ++i) sum[i] += w.gradient * fused_select(candidates + 4 * i, w.winner);
  }
  for (long lane = 0; lane < count; ++lane) {
    s.db[first + lane] += bias[lane];
    float* dw = s.dw + (first + lane) * g.padded_field;
    for (long i = 0; i < Field; ++i) dw[i / g.run * g.padded_run + i % g.run] += sum[i][lane];
  }
}

void backward_first(const Geometry& g, const Backward& f, const Scratch& s) {
  for (long begin = 0; begin < g.windows; begin += g.chunk) {
    const long end = begin + g.chunk < g.windows ? begin + g.chunk : g.windows;
    list_candidates(g, f, s, begin, end);
    for (long first = 0; first < g.out_channels; first += lanes)
      with_constant<max_first_field>(
          g.field, [&](auto field) { first_weight_gradient<decltype(field)::value>(g, f, s, begin, end, first); });
  }
}
