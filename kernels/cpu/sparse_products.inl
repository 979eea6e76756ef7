// Products of matrices whose left factor has many zeros, which are left out: written with GCC's vector extensions and
// included once per instruction set. The including file includes its instructions_*.inl before. Everything here has
// internal linkage.
//
// A multiply-add for each number of A alone would need a load of B for each. So four rows of A go together, and for
// each set of these rows the columns are listed in which exactly they are not zero: a row of B that is loaded serves
// all rows of the set, and there is a loop for each of the fifteen sets, without a branch inside.

namespace mrmf::cpu::sparse {
namespace {

#include "kernels/cpu/vectors.inl"

// Registers: `width` times four sums, as many vectors of B, and one number of A.
constexpr long width = FUSED_REGISTERS >= 32 ? 4 : 3;
constexpr long panel_columns = width * lanes;
typedef Vector Sums[group_rows][width];
typedef int Ints __attribute__((vector_size(sizeof(int) * lanes)));
typedef int IntsAnywhere __attribute__((vector_size(sizeof(int) * lanes), aligned(4), may_alias));

// The sums of the set's columns: `value` is where its numbers begin, and those of the next set behind it.
template <int Set>
inline __attribute__((always_inline)) void add_set(const Group& a, const float*& value, const float* panel, Sums& sum) {
  const int first = a.begin[Set - 1], count = a.begin[Set] - first;
  for (int i = 0; i < count; ++i) {
    const float* const b = panel + static_cast<long>(a.column[first + i]) * panel_columns;
    Vector row[width];
#pragma GCC unroll 4
    for (long v = 0; v < width; ++v) row[v] = *reinterpret_cast<const Vector*>(b + v * lanes);
    long number = i;
#pragma GCC unroll 4
    for (int r = 0; r < group_rows; ++r) {
      if ((Set >> r & 1) == 0) continue;
      const Vector factor = broadcast(value[number]);
      number += count + lanes;
#pragma GCC unroll 4
      for (long v = 0; v < width; ++v) sum[r][v] += factor * row[v];
    }
  }
  value += __builtin_popcount(Set) * (count + lanes);
}

template <int Set>
inline __attribute__((always_inline)) void add_sets(const Group& a, const float* value, const float* panel, Sums& sum) {
  add_set<Set>(a, value, panel, sum);
  if constexpr (Set + 1 < group_sets) add_sets<Set + 1>(a, value, panel, sum);
}

// Lists are written one behind the other, each with room for the vector that reaches past its end.
void list_group(long depth, const float* rows, int* column, float* value, Group& group) {
  int sets[most_depth];
  for (long k = 0; k < depth; k += lanes) {
    Ints set{};
    for (int r = 0; r < group_rows; ++r) set |= (load(rows + r * most_depth + k) != 0) & (1 << r);
    *reinterpret_cast<IntsAnywhere*>(sets + k) = set;
  }
  group.column = column, group.value = value, group.begin[0] = 0;
  int count = 0;
  for (int set = 1; set < group_sets; ++set) {
    for (long k = 0; k < depth; k += lanes) {
      const Lanes chosen = lanes_where(*reinterpret_cast<const IntsAnywhere*>(sets + k) == set);
      store_numbers(chosen, static_cast<int>(k), column + count);
      count += size_of(chosen);
    }
    group.begin[set] = count;
    const int step = count - group.begin[set - 1] + static_cast<int>(lanes);
    for (int r = 0; r < group_rows; ++r) {
      if ((set >> r & 1) == 0) continue;
      float* to = value;
      for (long k = 0; k < depth; k += lanes) {
        const Lanes chosen = lanes_where(*reinterpret_cast<const IntsAnywhere*>(sets + k) == set);
        store_lanes(chosen, load(rows + r * most_depth + k), to);
        to += size_of(chosen);
      }
      value += step;
    }
  }
}

void multiply_part(const Group& a, const float* panel, bool add, float* c, long pitch) {
  Sums sum;
#pragma GCC unroll 4
  for (int r = 0; r < group_rows; ++r)
#pragma GCC unroll 4
    for (long v = 0; v < width; ++v) sum[r][v] = add ? load(c + r * pitch + v * lanes) : Vector{};
  add_sets<1>(a, a.value, panel, sum);
#pragma GCC unroll 4
  for (int r = 0; r < group_rows; ++r)
#pragma GCC unroll 4
    for (long v = 0; v < width; ++v) store(c + r * pitch + v * lanes, sum[r][v]);
}

void pack_panel(long depth, long columns, const float* b, long pitch, float* panel) {
  for (long k = 0; k < depth; ++k, b += pitch, panel += panel_columns)
    for (long v = 0; v < width; ++v) {
      const long left = columns - v * lanes;
      const Vector row = left >= lanes ? load(b + v * lanes) : left > 0 ? load_some(b + v * lanes, left) : Vector{};
      *reinterpret_cast<Vector*>(panel + v * lanes) = row;
    }
}

const Kernels kernels{lanes, panel_columns, list_group, pack_panel, multiply_part};

}  // namespace
}  // namespace mrmf::cpu::sparse
