#include "src/simulators/cosmology/particle_mesh.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/errors.hpp"

namespace mrmf::cosmology {
namespace {

constexpr std::size_t kPortion = std::size_t{1} << 17;  // particles per rank: their copies take 5 MiB

template <typename Action>
void for_each_portion(std::size_t particles, Action&& action) {
  for (std::size_t first = 0; first < particles; first += kPortion)
    action(first, std::min(first + kPortion, particles));
}

constexpr std::uint32_t kMass = 1U << 16;  // a particle's mass in fixed point

/// Masses are whole numbers while they are summed. Their bits are stored in the grid that later holds the forces.
std::uint32_t mass(float stored) { return std::bit_cast<std::uint32_t>(stored); }
void add(float& stored, std::uint32_t more) { stored = std::bit_cast<float>(mass(stored) + more); }

/// A weight below 1 in units of 2^-16.
std::uint32_t fixed(float weight) {
  return static_cast<std::uint32_t>(static_cast<int>(weight * static_cast<float>(kMass)));
}
/// The rounded share of a mass. The caller keeps the rest, so nothing is lost. The product of a whole mass fits too,
/// because the weight is below 1.
std::uint32_t share(std::uint32_t whole, std::uint32_t weight) { return (whole * weight + kMass / 2) / kMass; }

/// Counts that send one plane to the rank above.
std::vector<int> to_rank_above(const Comm& group, std::size_t plane) {
  std::vector<int> counts(static_cast<std::size_t>(group.size()));
  counts[static_cast<std::size_t>((group.rank() + 1) % group.size())] = static_cast<int>(plane);
  return counts;
}

}  // namespace

void ParticleExchange::visit(const Vectors& position, const PlaneFinder& planes, const Visit& visit) {
  for_each_portion(position[0].size(), [&](std::size_t first, std::size_t last) {
    send(position, first, last, planes);
    visit(there_);
  });
}

void ParticleExchange::ask(const Vectors& position, const PlaneFinder& planes, const Work& work, const Take& take) {
  for_each_portion(position[0].size(), [&](std::size_t first, std::size_t last) {
    const AllToAll way = send(position, first, last, planes);
    for (RealGrid& axis : answers_) axis.resize(way.received());
    work(there_, answers_);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      way.answer(answers_[axis], here_);
      for (std::size_t i = 0; i < order_.size(); ++i) take(order_[i], axis, here_[i]);
    }
  });
}

AllToAll ParticleExchange::send(const Vectors& position, std::size_t first, std::size_t last,
                                const PlaneFinder& planes) {
  std::vector<int> counts(static_cast<std::size_t>(group_.size()));
  sort(position[0], first, last, planes, counts);
  AllToAll way(group_, counts);
  here_.resize(order_.size());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::ranges::transform(order_, here_.begin(), [&](std::size_t particle) { return position[axis][particle]; });
    there_[axis].resize(way.received());
    way.send(here_, there_[axis]);
  }
  return way;
}

/// By counting sort.
void ParticleExchange::sort(const RealGrid& x, std::size_t first, std::size_t last, const PlaneFinder& planes,
                            std::vector<int>& counts) {
  const int per_rank = planes.n / group_.size();
  const auto rank_of = [&](std::size_t particle) { return static_cast<std::size_t>(planes(x[particle]) / per_rank); };
  for (std::size_t p = first; p < last; ++p) ++counts[rank_of(p)];
  std::vector<std::size_t> next(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), std::size_t{0});
  order_.resize(last - first);
  for (std::size_t p = first; p < last; ++p) order_[next[rank_of(p)]++] = p;
}

ParticleMesh::ParticleMesh(const Fft& fft, int lattice, Comm* group)
    : fft_(fft),
      group_(group),
      points_(fft.slab().points()),
      plane_(static_cast<std::size_t>(fft.size()) * static_cast<std::size_t>(fft.size())),
      particles_(Slab{lattice}.cube()),
      per_cell_(static_cast<float>(fft.size() / lattice)),
      planes_{per_cell_, std::fmod(0.5F + (1 - kLatticeOffset) * per_cell_, 1.0F), fft.size()},
      slopes_(difference_slopes(fft.size())),
      contrast_(fft.slab().modes()),
      scratch_(fft.slab().modes()) {
  for (RealGrid& axis : force_) axis.resize(points_ + plane_);
  if (group == nullptr) return;
  exchange_.emplace(*group);
  up_.emplace(*group, to_rank_above(*group, plane_));
}

/// Finds a particle's place. A loop uses a copy, whose values no store to a grid can change, so they stay in registers.
struct ParticleMesh::Locator {
  PlaneFinder planes;
  int first;  // first plane on this rank
  std::size_t plane;

  Cell operator()(float x, float y, float z) const {
    const auto n = static_cast<std::size_t>(planes.n);
    const float mx = planes.along(x), my = planes.along(y), mz = planes.along(z);
    const int i = static_cast<int>(mx), j = static_cast<int>(my), k = static_cast<int>(mz);
    const std::size_t x0 = static_cast<std::size_t>(planes.wrapped(i) - first) * plane;
    return {x0,
            x0 + plane,
            static_cast<std::size_t>(planes.wrapped(j)) * n,
            static_cast<std::size_t>(planes.wrapped(j + 1)) * n,
            static_cast<std::size_t>(planes.wrapped(k)),
            static_cast<std::size_t>(planes.wrapped(k + 1)),
            mx - static_cast<float>(i),
            my - static_cast<float>(j),
            mz - static_cast<float>(k)};
  }
};

ParticleMesh::Locator ParticleMesh::locator() const { return {planes_, fft_.slab().first(), plane_}; }

void ParticleMesh::deposit(const Vectors& position, RealGrid& masses) const {
  float* to = masses.data();
  const Locator locate = locator();
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const Cell c = locate(position[0][p], position[1][p], position[2][p]);
    const std::uint32_t wx = fixed(c.x), wy = fixed(c.y), wz = fixed(c.z);
    const auto along_z = [&](std::size_t row, std::uint32_t whole) {
      const std::uint32_t above = share(whole, wz);
      add(to[row + c.z0], whole - above);
      add(to[row + c.z1], above);
    };
    const auto along_y = [&](std::size_t plane, std::uint32_t whole) {
      const std::uint32_t above = share(whole, wy);
      along_z(plane + c.y0, whole - above);
      along_z(plane + c.y1, above);
    };
    along_y(c.x0, kMass - wx);
    along_y(c.x1, wx);
  }
}

/// Adds what particles below the plane above have given to it, on the rank that has that plane.
void ParticleMesh::add_ghost(RealGrid& masses) {
  const std::span<float> ghost(masses.data() + points_, plane_);
  RealGrid arrived(plane_);
  if (up_)
    up_->send(ghost, arrived);
  else
    std::ranges::copy(ghost, arrived.begin());
  for (std::size_t i = 0; i < plane_; ++i) add(masses[i], mass(arrived[i]));
}

void ParticleMesh::copy_ghost(RealGrid& force) {
  const std::span<float> lowest(force.data(), plane_), ghost(force.data() + points_, plane_);
  if (up_)
    up_->answer(lowest, ghost);
  else
    std::ranges::copy(lowest, ghost.begin());
}

void ParticleMesh::to_numbers(RealGrid& masses) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < points_; ++i) {
    const std::uint32_t here = mass(masses[i]);
    sum += here;
    masses[i] = static_cast<float>(here) * (1 / static_cast<float>(kMass));
  }
  if (group_ != nullptr) group_->sum(std::span(&sum, 1));
  // Each overflow of a point's 32 bits loses 2^32 from the sum.
  if (sum != static_cast<std::int64_t>(particles_) * kMass)
    throw FaultError(
        "simulate cosmology: more than 65535 particles meet at a point of the mesh for the forces, more than its fixed "
        "point holds; ask for fewer particles per voxel, more mesh cells or a larger box");
}

void ParticleMesh::update(const Vectors& position) {
  RealGrid& masses = force_[0];
  std::ranges::fill(masses, std::bit_cast<float>(std::uint32_t{0}));
  if (exchange_)
    exchange_->visit(position, planes_, [&](const Vectors& here) { deposit(here, masses); });
  else
    deposit(position, masses);
  add_ghost(masses);
  to_numbers(masses);
  fft_.to_modes(std::span(masses).first(points_), contrast_);
  // Contrast is particles per point over their mean; a mesh cell is 1 / per_cell_ of a lattice cell. attraction()
  // leaves out the mode that is the mean.
  const float factor = per_cell_ * per_cell_ / static_cast<float>(fft_.slab().cube());
  for (int axis = 0; axis < 3; ++axis) {
    RealGrid& force = force_[static_cast<std::size_t>(axis)];
    attraction(contrast_, fft_.slab(), {axis, factor, slopes_}, scratch_);
    fft_.to_field(scratch_, std::span(force).first(points_));
    copy_ghost(force);
  }
}

/// Calls take(particle, axis, force).
template <typename Take>
void ParticleMesh::for_each_force(const Vectors& position, Take&& take) const {
  const Locator locate = locator();
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const Cell c = locate(position[0][p], position[1][p], position[2][p]);
    const float w00 = (1 - c.x) * (1 - c.y), w01 = (1 - c.x) * c.y, w10 = c.x * (1 - c.y), w11 = c.x * c.y;
    const std::array<float, 8> weight = {w00 * (1 - c.z), w00 * c.z, w01 * (1 - c.z), w01 * c.z,
                                         w10 * (1 - c.z), w10 * c.z, w11 * (1 - c.z), w11 * c.z};
    const std::array<std::size_t, 4> row = {c.x0 + c.y0, c.x0 + c.y1, c.x1 + c.y0, c.x1 + c.y1};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const float *below = force_[axis].data() + c.z0, *above = force_[axis].data() + c.z1;
      float sum = 0;
      for (std::size_t i = 0; i < 4; ++i) sum += weight[2 * i] * below[row[i]] + weight[2 * i + 1] * above[row[i]];
      take(p, axis, sum);
    }
  }
}

void ParticleMesh::add_forces(const Vectors& position, float factor, Vectors& to) {
  const auto add_to = [&](std::size_t particle, std::size_t axis, float force) {
    to[axis][particle] += factor * force;
  };
  if (!exchange_) return for_each_force(position, add_to);
  const auto work = [&](const Vectors& here, Vectors& answer) {
    for_each_force(here, [&](std::size_t particle, std::size_t axis, float force) { answer[axis][particle] = force; });
  };
  exchange_->ask(position, planes_, work, add_to);
}

}  // namespace mrmf::cosmology
