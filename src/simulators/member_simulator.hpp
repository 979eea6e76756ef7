// One sample of given parameters from any of the simulators: what an ensemble (src/ensemble) makes of its points.
#pragma once

#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/values/element_type.hpp"

namespace mrmf {

/// A number that a simulator takes. A design may vary it, unless it is fixed.
struct SimulatorKey {
  std::string name;
  double least, most;   ///< both are possible
  double standard;      ///< NaN: the member's own number
  std::string meaning;  ///< in words, with the unit
  bool whole = false;   ///< a whole number
  bool fixed = false;   ///< the same for all members: the shape of what is made follows from it
};
inline constexpr double kOwnNumber = std::numeric_limits<double>::quiet_NaN();

/// One of the arrays that a member makes.
struct MemberArray {
  std::string name;
  std::vector<Index> shape;
  ElementType type = ElementType::float32;

  Index numbers() const;
  Index bytes() const { return numbers() * size_of(type); }
};
/// Bytes of all parts of a row, one behind the other.
Index bytes_of(const std::vector<MemberArray>& parts);

/// A member to be made.
struct MemberTask {
  Index number = 0;                  ///< the member's number
  std::span<const double> values{};  ///< one per key, in the order of simulator_keys()
  std::span<std::byte> row{};        ///< where its parts go, aligned for any type
  std::string error{};               ///< why it could not be made; "" when it was
};

/// Immutable, so threads share it, each with memory of its own.
class MemberSimulator {
 public:
  /// Working memory of one thread.
  struct Memory {
    virtual ~Memory() = default;
  };

  virtual ~MemberSimulator() = default;
  virtual std::vector<MemberArray> parts() const = 0;
  /// How many members are best made by one call.
  virtual Index at_once() const { return 1; }
  virtual std::unique_ptr<Memory> memory() const { return std::make_unique<Memory>(); }
  /// Makes the rows. The same numbers give the same bytes, with whatever others they are made.
  virtual void make(std::span<MemberTask> members, Memory& memory) const = 0;
};

/// Calls one(member) for each, and keeps its error with it.
template <class One>
void make_each(std::span<MemberTask> members, One&& one) {
  for (MemberTask& member : members) try {
      one(member);
    } catch (const std::exception& error) {
      member.error = error.what();
    }
}

/// Their names: neuron, cosmology, heat, texture, volumes, implosion.
std::vector<std::string> simulator_names();
/// The keys of a simulator. ConfigError for an unknown name, with those there are.
std::vector<SimulatorKey> simulator_keys(const std::string& simulator);
/// `values`: one per key; those of the fixed keys count. ConfigError where they are impossible.
std::unique_ptr<MemberSimulator> make_member_simulator(const std::string& simulator, std::span<const double> values);

}  // namespace mrmf
