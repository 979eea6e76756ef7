// Index arithmetic of kernels: counts below 2^31, and cheap division by a number known before the launch.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/host_device.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cuda {

/// A count that kernels handle in 32 bits (addresses are computed in 64). In vectors of 16 bytes, 2^31 are 32 GiB.
inline std::uint32_t count32(Index n) {
  MRMF_CHECK(n >= 0 && n < (Index{1} << 31),
             "a tensor of " + std::to_string(n) + " rows or vectors is too large for one launch; use a smaller batch");
  return static_cast<std::uint32_t>(n);
}

/// Quotients of numbers below 2^31 by a multiplication and a shift (Granlund & Montgomery 1994): with
/// 2^(s-1) < d <= 2^s and m = ceil(2^(31+s) / d), n m / 2^(31+s) exceeds n / d by less than 1 / d.
class Divider {
 public:
  Divider() = default;
  explicit Divider(Index divisor) : divisor_(count32(divisor)) {
    MRMF_CHECK(divisor > 0, "division by zero");
    shift_ = 31U + static_cast<std::uint32_t>(std::bit_width(divisor_ - 1));
    magic_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + divisor_ - 1) / divisor_);
  }

  MRMF_HD std::uint32_t quotient(std::uint32_t n) const {
    return static_cast<std::uint32_t>((std::uint64_t{n} * magic_) >> shift_);
  }
  /// The remainder of n, which becomes the quotient: takes the fastest coordinate off a position.
  MRMF_HD std::uint32_t take(std::uint32_t& n) const {
    const std::uint32_t q = quotient(n);
    const std::uint32_t remainder = n - q * divisor_;
    n = q;
    return remainder;
  }

 private:
  std::uint32_t divisor_ = 1, magic_ = 0x80000000U, shift_ = 31;
};

}  // namespace mrmf::cuda
