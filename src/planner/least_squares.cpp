#include "src/planner/least_squares.hpp"

#include <Eigen/Dense>
#include <limits>

#include "kernels/check.hpp"

namespace mrmf {

// A best point without negative coefficients is the plain best point of the terms that it uses. There are few terms, so
// all sets of them are tried.
std::vector<double> fit_terms(const std::vector<TimedWork>& measured) {
  if (measured.empty()) return {};
  const auto rows = static_cast<Eigen::Index>(measured.size());
  const auto terms = static_cast<Eigen::Index>(measured.front().terms.size());
  MRMF_CHECK(terms <= 8, "a fit tries all sets of its terms");
  Eigen::MatrixXd all(rows, terms);  // relative to the time, so that every measurement weighs the same
  for (Eigen::Index r = 0; r < rows; ++r) {
    const TimedWork& one = measured[static_cast<std::size_t>(r)];
    for (Eigen::Index t = 0; t < terms; ++t) all(r, t) = one.terms[static_cast<std::size_t>(t)] / one.seconds;
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(rows);
  Eigen::VectorXd best = Eigen::VectorXd::Zero(terms);
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1U << static_cast<unsigned>(terms); ++set) {
    std::vector<Eigen::Index> used;
    for (Eigen::Index t = 0; t < terms; ++t)
      if ((set >> static_cast<unsigned>(t) & 1U) != 0 && all.col(t).norm() > 0) used.push_back(t);
    if (used.empty()) continue;
    const Eigen::MatrixXd some = all(Eigen::all, used);
    const Eigen::VectorXd scale = some.colwise().norm();  // terms count from one to 1e12
    const Eigen::MatrixXd scaled = some * scale.cwiseInverse().asDiagonal();
    const Eigen::VectorXd found = scaled.completeOrthogonalDecomposition().solve(ones).cwiseQuotient(scale);
    if (found.minCoeff() < 0) continue;
    const double error = (some * found - ones).squaredNorm();
    if (error >= least) continue;
    least = error;
    best.setZero();
    for (std::size_t u = 0; u < used.size(); ++u) best(used[u]) = found(static_cast<Eigen::Index>(u));
  }
  return {best.data(), best.data() + terms};
}

}  // namespace mrmf
