// AMX's tiles: the registers and what is done with them, floats as sums of numbers in bf16, and sums of products of
// such floats. Included inside an anonymous namespace.

#include "kernels/cpu/direct_tiles.inl"

typedef unsigned Bits __attribute__((vector_size(64)));
typedef unsigned short Halves __attribute__((vector_size(64)));
typedef unsigned short Half;  // a number in bf16

constexpr long side = 16;  // rows of a tile; also the floats in a row
constexpr long deep = 32;  // numbers in bf16 in a row
constexpr long tile_halves = side * deep;

// The eight tile registers, numbered by the template's argument, and what is done with them.
#ifdef __AMX_BF16__
struct TileRegisters {
  struct alignas(64) Shapes {
    unsigned char palette = 1, start = 0, reserved[14] = {};
    unsigned short row_bytes[16] = {};
    unsigned char rows[16] = {};
  };
  // All of 16 rows of 64 bytes, until this ends.
  TileRegisters() {
    Shapes shapes;
    for (long t = 0; t < 8; ++t) shapes.row_bytes[t] = 64, shapes.rows[t] = side;
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
  }
  ~TileRegisters() { __asm__ volatile("tilerelease"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

  // pitch: bytes from row to row, may be 0
  template <int Tile>
  inline void load(const void* from, long pitch) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(pitch), "i"(Tile) : "memory");
  }
  template <int Tile>
  inline void store(void* to, long pitch) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(pitch), "i"(Tile) : "memory");
  }
  template <int Sum, int Left, int Right>
  inline void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(Left), "i"(Right));
  }
};
#else  // tests/CMakeLists.txt: on processors without AMX
struct TileRegisters {
  Bits rows[8][side];
  template <int Tile>
  void load(const void* from, long pitch) {
    for (long r = 0; r < side; ++r)
      __builtin_memcpy(&rows[Tile][r], static_cast<const char*>(from) + r * pitch, sizeof(Bits));
  }
  template <int Tile>
  void store(void* to, long pitch) {
    for (long r = 0; r < side; ++r) __builtin_memcpy(static_cast<char*>(to) + r * pitch, &rows[Tile][r], sizeof(Bits));
  }
  template <int Sum, int Left, int Right>
  void multiply() {
    for (long r = 0; r < side; ++r)
      for (long k = 0; k < side; ++k) {
        const Bits pair = rows[Left][r][k] - Bits{}, right = rows[Right][k];
        rows[Sum][r] = (Bits)((Vector)rows[Sum][r] + (Vector)(pair << 16) * (Vector)(right << 16));
        rows[Sum][r] = (Bits)((Vector)rows[Sum][r] + (Vector)(pair & 0xffff0000U) * (Vector)(right & 0xffff0000U));
      }
  }
};
#endif

// Floats as sums of numbers in bf16, each in the upper half of its lane.
template <long Parts>
inline void split(Vector v, Bits (&parts)[Parts]) {
  const Bits no_number = (Bits)(v != v);  // whose bits may overflow
  for (long s = 0; s < Parts; ++s) {
    parts[s] = (((Bits)v + 0x8000U) | (s == 0 ? no_number : Bits{})) & 0xffff0000U;
    if (s + 1 < Parts) v -= (Vector)parts[s];
  }
}

// In each lane the number of `first`, and above it that of `second`.
inline Bits pairs(Bits first, Bits second) { return first >> 16 | second; }

// The numbers of `first`, and then those of `second`.
inline Halves line(Bits first, Bits second) {
  return __builtin_shufflevector((Halves)first, (Halves)second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29,
                                 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63);
}

// Stores the pairs of two vectors, in parts that lie `pitch` numbers apart.
template <long Parts>
inline void store_pairs(Vector first, Vector second, Half* to, long pitch) {
  Bits low[Parts], high[Parts];
  split(first, low);
  split(second, high);
  for (long s = 0; s < Parts; ++s) {
    const Bits both = pairs(low[s], high[s]);
    __builtin_memcpy(to + s * pitch, &both, sizeof both);
  }
}

// The same of the numbers of the first, and then those of the second where `whole`.
template <long Parts>
inline void store_line(Vector first, Vector second, bool whole, Half* to, long pitch) {
  Bits low[Parts], high[Parts];
  split(first, low);
  split(second, high);
  for (long s = 0; s < Parts; ++s) {
    const Halves both = line(low[s], high[s]);
    if (whole)
      __builtin_memcpy(to + s * pitch, &both, sizeof both);
    else
      __builtin_memcpy(to + s * pitch, &both, sizeof both / 2);
  }
}

template <unsigned... Lane>
struct Lanes {};
using AllLanes = Lanes<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;

// Exchanges the lanes of `a` whose number has the bit `Step` with those of `b` whose number has it not.
template <unsigned Step, unsigned... Lane>
inline void exchange(Vector& a, Vector& b, Lanes<Lane...>) {
  const Vector first = __builtin_shufflevector(a, b, ((Lane & Step) != 0 ? 16 + Lane - Step : Lane)...);
  b = __builtin_shufflevector(a, b, ((Lane & Step) != 0 ? 16 + Lane : Lane + Step)...);
  a = first;
}

// Exchanges rows and columns.
template <unsigned Step = side / 2>
inline void transpose(Vector (&v)[side]) {
#pragma GCC unroll 16
  for (unsigned i = 0; i < side; ++i)
    if ((i & Step) == 0) exchange<Step>(v[i], v[i + Step], AllLanes{});
  if constexpr (Step > 1) transpose<Step / 2>(v);
}

// Left factors of tiles of sums below each other, right ones of those beside each other.
struct Factors {
  const Half* at[4];
  long part, pitch;  // numbers from part to part; bytes from row to row
};

// Calls body(Constant<0>), body(Constant<1>) ...
template <long Count, class Body>
inline void repeat(const Body& body) {
  if constexpr (Count > 1) repeat<Count - 1>(body);
  body(Constant<Count - 1>{});
}

// Sums of some tiles, Down below each other and Across beside each other: two by two, or some in a line. They are the
// first tile registers, row by row; the other registers are factors. Tiles are loaded and multiplied at about the same
// rate, so each factor that is loaded serves several products.
template <long Parts, long Down, long Across>
struct Sums {
  TileRegisters& tiles;

  // at(row, column): where a tile of sums lies in memory
  template <class At>
  inline void load(const At& at, long pitch) {
    repeat<Down>([&](auto m) {
      repeat<Across>([&](auto n) { tiles.template load<m.value * Across + n.value>(at(m.value, n.value), pitch); });
    });
  }
  template <class At>
  inline void store(const At& at, long pitch) {
    repeat<Down>([&](auto m) {
      repeat<Across>([&](auto n) { tiles.template store<m.value * Across + n.value>(at(m.value, n.value), pitch); });
    });
  }

  // Adds the products that reach the last bit of a float.
  inline void add(const Factors& l, const Factors& r) {
    if constexpr (Across == 1)
      add_line<false>(l, r);
    else if constexpr (Down == 1 && Across != 2)
      add_line<true>(r, l);
    else
      add_square(l, r);
  }

 private:
  // Sums in a line: of one factor all parts stay in registers, and the others pass by. Mirrored: these are right ones.
  template <bool Mirrored>
  inline void add_line(const Factors& passing, const Factors& staying) {
    constexpr long count = Down * Across;
    constexpr int pass = Parts == 1 ? 4 : 3, stay = pass + 2;
    repeat<Parts>(
        [&](auto t) { tiles.template load<stay + t.value>(staying.at[0] + t.value * staying.part, staying.pitch); });
    repeat<Parts>([&](auto s) {
      repeat<count>([&](auto n) {
        constexpr int at = pass + n.value % 2;
        tiles.template load<at>(passing.at[n.value] + s.value * passing.part, passing.pitch);
        repeat<Parts - s.value>([&](auto t) {
          if constexpr (Mirrored)
            tiles.template multiply<n.value, stay + t.value, at>();
          else
            tiles.template multiply<n.value, at, stay + t.value>();
        });
      });
    });
  }

  // Two by two: one part of each factor is in the registers, and one of both changes for the next products.
  inline void left(const Factors& l, long part) {
    repeat<Down>([&](auto m) { tiles.template load<4 + m.value>(l.at[m.value] + part * l.part, l.pitch); });
  }
  inline void right(const Factors& r, long part) {
    repeat<Across>([&](auto n) { tiles.template load<6 + n.value>(r.at[n.value] + part * r.part, r.pitch); });
  }
  inline void multiply() {
    repeat<Down>([&](auto m) {
      repeat<Across>([&](auto n) { tiles.template multiply<m.value * Across + n.value, 4 + m.value, 6 + n.value>(); });
    });
  }
  inline void add_square(const Factors& l, const Factors& r) {
    constexpr bool all = Parts > 1;
    right(r, 0);
    if constexpr (all) left(l, 2), multiply();
    left(l, 0), multiply();
    if constexpr (all) left(l, 1), multiply();
    if constexpr (all) right(r, 1), multiply();
    if constexpr (all) left(l, 0), multiply();
    if constexpr (all) right(r, 2), multiply();
  }
};
