// The backward half of conv_pool_relu.inl (included there, inside its anonymous namespace): gradients of a first layer,
// which needs none of its input, and of all others; and copies of positions, which forward has, too.

// The weight gradient of a first layer: no data gradient is wanted and the field is short, so lists of entries would
// cost more than the work. Instead every lane is an output channel, and the input that its winner met is picked by a
// shuffle: from all inputs of the window where registers hold them, else from the (at most four) candidates.

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

// The first `count` bytes, and zeros.
inline Mask load_some_bytes(const unsigned char* from, long count) {
  unsigned char all[lanes] = {};
  for (long lane = 0; lane < count; ++lane) all[lane] = from[lane];
  return load_bytes(all);
}

// Channels [first, first + lanes) of one window: dy where ReLU was active, and the winners.
struct WindowGradient {
  Vector gradient;
  Mask winner;
};
inline WindowGradient load_window(const float* y, const float* dy, const unsigned char* winner) {
  return {load(y) <= 0 ? Vector{} : load(dy), load_bytes(winner)};
}
// The same where a whole vector would reach past the end of the row of windows.
inline WindowGradient load_window_end(const float* y, const float* dy, const unsigned char* winner, long count) {
  return {load_some(y, count) <= 0 ? Vector{} : load_some(dy, count), load_some_bytes(winner, count)};
}

// The inputs that winners of a window met: of element i of the field.
struct FromCandidates {
  const float* candidates;
  Mask winner;
  Vector operator()(long i) const { return select_of_four(candidates + 4 * i, winner); }
};
struct FromTable {
  Table inputs;
  Mask first;  // the winner's first input
  Vector operator()(long i) const { return select_of_table(inputs, first + static_cast<int>(i)); }
};

// Channels [first, first + lanes). inputs_of(window, winner) gives its FromCandidates or FromTable.
template <long Field, class InputsOf>
void first_weight_gradient(const Geometry& g, const Backward& f, const Scratch& s, long begin, long end, long first,
                           const InputsOf& inputs_of) {
  Vector sum[Field] = {}, bias{};
  const long count = g.out_channels - first < lanes ? g.out_channels - first : lanes;
  for (long window = begin; window < end; ++window) {
    const long at = window * g.out_channels + first;
    const bool whole = at + lanes <= g.windows * g.out_channels;  // else it would read past the row
    const WindowGradient w = whole ? load_window(f.y + at, f.dy + at, f.winner + at)
                                   : load_window_end(f.y + at, f.dy + at, f.winner + at, count);
    bias += w.gradient;
    const auto input = inputs_of(window, w.winner);
#pragma GCC unroll 12
    for (long i = 0; i < Field; ++i) sum[i] += w.gradient * input(i);
  }
  for (long lane = 0; lane < count; ++lane) {
    s.db[first + lane] += bias[lane];
    float* dw = s.dw + (first + lane) * g.padded_field;
    for (long i = 0; i < Field; ++i) dw[i / g.run * g.padded_run + i % g.run] += sum[i][lane];
  }
}

// For all channels.
template <class InputsOf>
void first_weight_gradients(const Geometry& g, const Backward& f, const Scratch& s, long begin, long end,
                            const InputsOf& inputs_of) {
  for (long first = 0; first < g.out_channels; first += lanes)
    with_constant<max_first_field>(g.field, [&](auto field) {
      first_weight_gradient<decltype(field)::value>(g, f, s, begin, end, first, inputs_of);
    });
}

void backward_first(const Geometry& g, const Backward& f, const Scratch& s) {
  const long inputs = (g.window + g.kernel - 1) * g.in_channels, step = g.window * g.in_channels;
  for (long begin = 0; begin < g.windows; begin += g.chunk) {
    const long end = begin + g.chunk < g.windows ? begin + g.chunk : g.windows;
    if constexpr (table_floats > 0)
      if (g.window_lines == 1 && g.kernel_lines == 1 && inputs <= table_floats) {
        first_weight_gradients(g, f, s, begin, end, [&](long window, Mask winner) {
          return FromTable{load_table(f.x + window * step, inputs), winner * static_cast<int>(g.in_channels)};
        });
        continue;
      }
    list_candidates(g, f, s, begin, end);
    first_weight_gradients(g, f, s, begin, end, [&](long window, Mask winner) {
      return FromCandidates{s.candidates + (window - begin) * g.field * 4, winner};
    });
  }
}

// All other layers.

// A run of the data gradient is worked on in chunks whose weights for all channels fit the L1 cache, or nearly: fewer
// and larger chunks gain more than what then comes from the L2 cache costs. The same on all processors, because the
// order of the sums follows from it.
inline long data_chunk(const Geometry& g, long count) {
  constexpr long cache = 48 * 1024;
  long most = cache / (g.out_channels * lanes * static_cast<long>(sizeof(float)));
  most = most < 4 ? 4 : most;
  return next_block(count, most < max_chunk ? most : max_chunk);
}

void pack_backward(const Geometry& g, const float* w, float* packed) {
  for (long line = 0; line < g.kernel_lines; ++line, w += g.run)
    for (long first = 0, chunk = 0; first < vectors(g.run); first += chunk) {
      chunk = data_chunk(g, vectors(g.run) - first);
      for (long o = 0; o < g.out_channels; ++o)
        for (long i = first * lanes; i < (first + chunk) * lanes; ++i, ++packed)
          *packed = i < g.run ? w[o * g.field + i] : 0.0F;
    }
}

// One window's dy where ReLU was active, the winner there (else -1), and their share of db.
void take_window(const Geometry& g, const Backward& f, const Scratch& s, long window) {
  const float* y = f.y + window * g.out_channels;
  const float* dy = f.dy + window * g.out_channels;
  const unsigned char* winner = f.winner + window * g.out_channels;
  const auto take = [&s](long o, Vector output, Vector slope, Mask won) {
    const Mask idle = (output <= 0) | (slope == 0);
    const Vector gradient = idle ? Vector{} : slope;
    store(s.gradient + o, gradient);
    *reinterpret_cast<MaskAnywhere*>(s.code + o) = won | idle;
    store(s.db + o, load(s.db + o) + gradient);
  };
  long o = 0;
  for (; o + lanes <= g.out_channels; o += lanes) take(o, load(y + o), load(dy + o), load_bytes(winner + o));
  if (o == g.out_channels) return;
  const long count = g.out_channels - o;  // of the others, slopes of zero
  const bool whole = window * g.out_channels + o + lanes <= g.windows * g.out_channels;
  take(o, load_some(y + o, count), load_some(dy + o, count),
       whole ? load_bytes(winner + o) : load_some_bytes(winner + o, count));
}

// Lists the nonzero gradients of windows [begin, end) of a row by position, and adds them to db.
void list_by_position(const Geometry& g, const Backward& f, const Scratch& s, long begin, long end) {
  int count = 0;
  int* group = s.group_begin;
  for (long window = begin; window < end; ++window) {
    take_window(g, f, s, window);
    for (int p = 0; p < static_cast<int>(g.positions); ++p) {
      const int group_begin = count;
      *group++ = group_begin;
      for (long o = 0; o < g.padded_out; o += lanes) {
        const Mask code = *reinterpret_cast<const MaskAnywhere*>(s.code + o);
        const Lanes chosen = lanes_where(code == p);
        store_lanes(chosen, load(s.gradient + o), s.value + count);
        store_numbers(chosen, static_cast<int>(o), s.channel + count);
        count += size_of(chosen);
      }
      const int offset = static_cast<int>(window * g.window * g.in_channels + g.input_offset[p]);
      for (int e = group_begin; e < count; e += static_cast<int>(lanes))
        *reinterpret_cast<MaskAnywhere*>(s.offset + e) = offset - Mask{};
    }
  }
  *group = count;
}

// The same entries by output channel.
void list_by_channel(const Geometry& g, const Scratch& s, int count) {
  // What the loop writes could be any of what `g` and `s` point to: so what it reads of them stands in variables.
  int* const __restrict next = s.channel_end;
  ChannelEntry* const __restrict entries = s.channel_entry;
  const float* const __restrict value = s.value;
  const int* const __restrict offset = s.offset;
  const int* const __restrict channel = s.channel;
  for (long o = 0; o < g.out_channels; ++o) next[o] = static_cast<int>(o * g.chunk);
  for (int e = 0; e < count; ++e) entries[next[channel[e]]++] = {value[e], offset[e]};
}

// dw[o] += sum over the channel's entries of value * (a run of its input), a chunk of the run in registers. `x` and
// `gradient` are where the chunk of the first run and of the first channel begins.
template <long Chunk>
[[gnu::noinline]] void weight_gradient_chunk(const Geometry& g, const float* x, const Scratch& s, float* gradient) {
  constexpr long unroll = Chunk >= 8 ? 1 : Chunk >= 4 ? 2 : 4;  // independent sums hide the latency of short rows
  for (long o = 0; o < g.out_channels; ++o) {
    const ChannelEntry* const entry = s.channel_entry + o * g.chunk;
    const int count = s.channel_end[o] - static_cast<int>(o * g.chunk);
    float* dw = gradient + o * g.padded_field;
    Vector sum[unroll][Chunk] = {};
#pragma GCC unroll 32
    for (long n = 0; n < Chunk; ++n) sum[0][n] = load(dw + n * lanes);
    int e = 0;
    for (; e + unroll <= count; e += unroll)
      for (long u = 0; u < unroll; ++u) {
        const Vector v = broadcast(entry[e + u].value);
        const float* from = x + entry[e + u].offset;
#pragma GCC unroll 32
        for (long n = 0; n < Chunk; ++n) sum[u][n] += v * load(from + n * lanes);
      }
    for (; e < count; ++e) {
      const Vector v = broadcast(entry[e].value);
      const float* from = x + entry[e].offset;
#pragma GCC unroll 32
      for (long n = 0; n < Chunk; ++n) sum[0][n] += v * load(from + n * lanes);
    }
    for (long u = 1; u < unroll; ++u)
#pragma GCC unroll 32
      for (long n = 0; n < Chunk; ++n) sum[0][n] += sum[u][n];
#pragma GCC unroll 32
    for (long n = 0; n < Chunk; ++n) store(dw + n * lanes, sum[0][n]);
  }
}

// dx[run of position] += sum over the position's entries of value * w[channel], a chunk of the run in registers.
// `first` is where the chunk of the row's first run begins.
template <long Chunk>
[[gnu::noinline]] void data_gradient_chunk(const Geometry& g, const float* packed, const Scratch& s, long begin,
                                           long end, float* first) {
  constexpr long unroll = Chunk >= 8 ? 1 : Chunk >= 4 ? 2 : 4;
  const long groups = (end - begin) * g.positions;
  float* window = first + begin * g.window * g.in_channels;
  for (long group = 0, p = 0; group < groups; ++group) {
    float* dx = window + g.input_offset[p];
    if (++p == g.positions) p = 0, window += g.window * g.in_channels;
    Vector sum[unroll][Chunk] = {};
    int e = s.group_begin[group];
    const int stop = s.group_begin[group + 1];
    for (; e + unroll <= stop; e += unroll)
      for (long u = 0; u < unroll; ++u) {
        const Vector v = broadcast(s.value[e + u]);
        const float* w = packed + s.channel[e + u] * (Chunk * lanes);
#pragma GCC unroll 32
        for (long n = 0; n < Chunk; ++n) sum[u][n] += v * *reinterpret_cast<const Vector*>(w + n * lanes);
      }
    for (; e < stop; ++e) {
      const Vector v = broadcast(s.value[e]);
      const float* w = packed + s.channel[e] * (Chunk * lanes);
#pragma GCC unroll 32
      for (long n = 0; n < Chunk; ++n) sum[0][n] += v * *reinterpret_cast<const Vector*>(w + n * lanes);
    }
    for (long u = 1; u < unroll; ++u)
#pragma GCC unroll 32
      for (long n = 0; n < Chunk; ++n) sum[0][n] += sum[u][n];
#pragma GCC unroll 32
    for (long n = 0; n < Chunk; ++n) store(dx + n * lanes, load(dx + n * lanes) + sum[0][n]);
  }
}

void weight_gradient(const Geometry& g, const Backward& f, const Scratch& s) {
  const long count = vectors(g.run);
  for (long line = 0; line < g.kernel_lines; ++line)
    for (long first = 0, chunk = 0; first < count; first += chunk) {
      chunk = next_block(count - first, max_chunk);
      const float* x = f.x + line * g.line + first * lanes;
      float* dw = s.dw + line * g.padded_run + first * lanes;
      with_constant<max_chunk>(chunk, [&](auto n) { weight_gradient_chunk<decltype(n)::value>(g, x, s, dw); });
    }
}

void data_gradient(const Geometry& g, const Backward& f, const Scratch& s, long begin, long end) {
  const long count = vectors(g.run);
  const float* packed = f.packed;
  for (long line = 0; line < g.kernel_lines; ++line)
    for (long first = 0, chunk = 0; first < count; first += chunk) {
      chunk = data_chunk(g, count - first);
      float* dx = s.dx + line * g.line + first * lanes;
      with_constant<max_chunk>(chunk,
                               [&](auto n) { data_gradient_chunk<decltype(n)::value>(g, packed, s, begin, end, dx); });
      packed += g.out_channels * chunk * lanes;
    }
}

// One row of windows: of `f` and `s`, what is by position begins at the row.
void backward_row(const Geometry& g, const Backward& f, const Scratch& s) {
  for (long begin = 0; begin < g.windows; begin += g.chunk) {
    const long end = begin + g.chunk < g.windows ? begin + g.chunk : g.windows;
    list_by_position(g, f, s, begin, end);
    list_by_channel(g, s, s.group_begin[(end - begin) * g.positions]);
    weight_gradient(g, f, s);
    if (f.with_dx) data_gradient(g, f, s, begin, end);
  }
}

// `count` positions with their channels, which lie that many steps apart in the one and the other array.
void copy_positions(long count, long channels, const float* from, long from_step, float* to, long to_step) {
  if (from_step == channels && to_step == channels) channels *= count, count = 1;  // one run
  for (; count > 0; --count, from += from_step, to += to_step) {
    long c = 0;
    for (; c + lanes <= channels; c += lanes) store(to + c, load(from + c));
    if (c == channels) continue;
    if (c > 0)
      store(to + channels - lanes, load(from + channels - lanes));
    else
      store_some(to, channels, load_some(from, channels));
  }
}

void backward(const Geometry& g, const Backward& f, const Scratch& s) {
  const bool first_layer = is_first_layer(g, f);
  if (f.with_dx)
    for (long i = 0; i < g.in_lines * g.line; ++i) s.dx[i] = 0.0F;
  for (long row = 0; row < g.window_rows; ++row) {
    const long from = row * g.window_lines * g.line, at = row * g.windows * g.out_channels;
    const Backward now{f.packed, f.x + from, f.y + at, f.dy + at, f.winner + at, f.with_dx};
    Scratch mine = s;
    mine.dx += from;
    if (first_layer)
      backward_first(g, now, mine);
    else
      backward_row(g, now, mine);
  }
}
