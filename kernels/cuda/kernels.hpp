// Between the program's form of values (float32, unpadded) and the stored one. All memory is the device's.
#pragma once

#include "kernels/cuda/work.hpp"

namespace mrmf::cuda {

/// y (stored) from x (float32, unpadded) of `shape`, each block of factors' neighbours averaged; factors divide the
/// axes, {1, 1, 1} converts alone.
void import_activation(const Work& work, const Shape& shape, const Extent& factors, const float* x, void* y);

/// y (float32, unpadded) from x (stored) of `shape`.
void export_activation(const Work& work, const Shape& shape, const void* x, float* y);

/// Weights (out, taps, in); a dense layer has one tap.
struct WeightShape {
  Index out = 1, taps = 1, in = 1;
  /// Of the packed form: out and in padded to whole vectors.
  Index packed(const Storage& storage) const { return storage.channels(out) * taps * storage.channels(in); }
};
/// The storage type, out and in padded with zeros, from float32.
void pack_weights(const Work& work, const WeightShape& shape, const float* w, void* packed);
/// float32 from padded float32, as a dense layer's gradient of packed weights comes.
void unpack_weights(const Work& work, const WeightShape& shape, const float* packed, float* w);
/// float32 from the packed form, as a convolution's gradient of packed weights comes.
void unpack_stored_weights(const Work& work, const WeightShape& shape, const void* packed, float* w);

/// y = x in another shape of as many elements per sample, both stored; `equal_form` says that this is a copy.
void reshape(const Work& work, const Shape& from, const void* x, const Shape& to, void* y);
bool equal_form(const Storage& storage, const Shape& from, const Shape& to);

/// Rows of a multiple of 4 bytes; row 0 has the id `first`.
struct RowTable {
  const void* rows = nullptr;
  Index row_bytes = 0;
  std::int64_t first = 0;
};
/// Row i of y = the table's row of id ids[i].
void gather_rows(cudaStream_t stream, const RowTable& table, Index rows, const std::int64_t* ids, void* y);

}  // namespace mrmf::cuda
