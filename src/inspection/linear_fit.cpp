// A linear fit, judged on rows that it was not fitted to; declared in detail_measurement.hpp.
#include "src/inspection/detail_measurement.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

using Matrix = Eigen::MatrixXd;
using RowNumbers = std::vector<Eigen::Index>;

constexpr int kFolds = 5;
constexpr double kConstant = 1e-9;  // a deviation, relative to the largest number of its column
// Strengths of the ridge per row of the fit; columns have a variance of 1.
constexpr std::array kRidges{1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0};

Matrix matrix(const Table& table) {
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Rows>(table.values.data(), table.rows, table.columns);
}

/// The columns that change, with a mean of 0 and a variance of 1.
Matrix standardised(const Matrix& x) {
  const Matrix centred = x.rowwise() - x.colwise().mean();
  RowNumbers kept;
  for (Eigen::Index c = 0; c < x.cols(); ++c)
    if (centred.col(c).cwiseAbs().maxCoeff() > kConstant * x.col(c).cwiseAbs().maxCoeff()) kept.push_back(c);
  const Matrix some = centred(Eigen::all, kept);
  const Eigen::RowVectorXd deviation = some.colwise().norm() / std::sqrt(static_cast<double>(x.rows()));
  return some * deviation.cwiseInverse().asDiagonal();
}

/// Rows that a fit is judged on, and all others. By chance: rows may come in an order with a period.
std::pair<RowNumbers, RowNumbers> fold(Eigen::Index rows, int number) {
  RowNumbers order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  Rng random(mix(static_cast<std::uint64_t>(rows)));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::pair<RowNumbers, RowNumbers> parts;
  for (std::size_t i = 0; i < order.size(); ++i)
    (static_cast<int>(i) % kFolds == number ? parts.first : parts.second).push_back(order[i]);
  return parts;
}

/// Squared errors of one fold, for each strength of the ridge. The decomposition serves all of them.
std::array<double, kRidges.size()> errors(const Matrix& x, const Matrix& y,
                                          const std::pair<RowNumbers, RowNumbers>& parts) {
  const Matrix x_fit = x(parts.second, Eigen::all), y_fit = y(parts.second, Eigen::all);
  const Eigen::RowVectorXd x_mean = x_fit.colwise().mean(), y_mean = y_fit.colwise().mean();
  const Matrix a = x_fit.rowwise() - x_mean, b = y_fit.rowwise() - y_mean;
  const Eigen::SelfAdjointEigenSolver<Matrix> parted(a.transpose() * a);
  const Matrix& axes = parted.eigenvectors();
  const Matrix along = axes.transpose() * (a.transpose() * b);
  const Matrix judged = (x(parts.first, Eigen::all).rowwise() - x_mean) * axes;
  const Matrix wanted = y(parts.first, Eigen::all).rowwise() - y_mean;
  std::array<double, kRidges.size()> found{};
  for (std::size_t r = 0; r < kRidges.size(); ++r) {
    const double ridge = kRidges[r] * static_cast<double>(a.rows());
    const Eigen::VectorXd inverse = (parted.eigenvalues().array().max(0.0) + ridge).inverse();
    found[r] = (judged * inverse.asDiagonal() * along - wanted).squaredNorm();
  }
  return found;
}

}  // namespace

double unexplained_share(const Table& x, const Table& y) {
  MRMF_CHECK(x.rows == y.rows && x.rows >= 2 * kFolds, "too few rows for a fit");
  const Matrix from = standardised(matrix(x)), to = matrix(y);
  const double all = (to.rowwise() - to.colwise().mean()).squaredNorm();
  MRMF_CHECK(all > 0, "there is nothing to explain");
  if (from.cols() == 0) return 1;
  std::array<double, kRidges.size()> sums{};
  for (int number = 0; number < kFolds; ++number) {
    const auto found = errors(from, to, fold(from.rows(), number));
    for (std::size_t r = 0; r < sums.size(); ++r) sums[r] += found[r];
  }
  return std::ranges::min(sums) / all;
}

}  // namespace mrmf
