#include "gadgets/numerics/core/dense/hermitian_eigen.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics {
namespace {

using cpu::kTileColumns;
using cpu::kTileRows;
using cpu::Planes;
using cpu::Tile;

/// The number of rows of eigenvectors, and of columns, that are worked on together: four registers of AVX2 hold one
/// number each.
constexpr std::int64_t kRowsTogether = 16, kColumnsTogether = 8;
constexpr std::size_t kRotationsTogether = 1 << 15;          // half a mebibyte
constexpr std::int64_t kGramRows = 16, kDepthTogether = 64;  // rows of a Gram matrix, and depth of its factor

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

template <int kVectorBytes>
struct Vectors {
  static constexpr std::int64_t kLanes = kVectorBytes / sizeof(double);
  typedef double Lanes __attribute__((vector_size(kVectorBytes)));
  static ECHOTRAIN_INLINE void load(const double* from, Lanes& to) { std::memcpy(&to, from, sizeof(to)); }
  static ECHOTRAIN_INLINE void store(const Lanes& from, double* to) { std::memcpy(to, &from, sizeof(from)); }
};

/// Adds to rows p < to of a Gram matrix, from p = from on, at most kGramRows. Their factors stay in the cache, some
/// rows at a time.
template <int kVectorBytes>
ECHOTRAIN_INLINE void add_rows(const SplitMatrix& factor, std::int64_t from, std::int64_t to, SplitMatrix& matrix) {
  const std::int64_t n = factor.columns(), step = factor.step();
  for (std::int64_t first = 0; first < factor.rows(); first += kDepthTogether) {
    const Planes<const double> rows = factor.row(first);
    const std::int64_t depth = std::min(kDepthTogether, factor.rows() - first);
    for (std::int64_t q = from / kTileColumns * kTileColumns; q < n; q += kTileColumns)
      for (std::int64_t p = from; p < to && p < q + kTileColumns; p += kTileRows) {
        Tile tile;
        cpu::tile_product<true, kVectorBytes>(rows.at(p), rows.at(q), depth, {1, step, step}, tile);
        for (std::int64_t i = 0; i < std::min(kTileRows, to - p); ++i) {
          const Planes<double> row = matrix.row(p + i).at(q);
          for (std::int64_t j = 0; j < kTileColumns; ++j) {  // rows have room beyond their end
            row.re[j] += tile.re[i][j];
            row.im[j] += tile.im[i][j];
          }
        }
      }
  }
}

ECHOTRAIN_VECTOR_CLONES(void add_gram_rows(const SplitMatrix& factor, std::int64_t from, std::int64_t to,
                                           SplitMatrix& matrix),
                        add_rows<kVectorBytes>(factor, from, to, matrix))

/// A Hermitian matrix A, of which element (i, j), i >= j, lies at row(j)[i]; and vectors as long as its rows. All have
/// zeros beyond their ends.
struct Reduction {
  SplitMatrix* a;
  Planes<double> v, w;  ///< A is yet to become A - v w^H - w v^H
  Planes<double> next;  ///< the reflector that follows
  Planes<double> product;
};

/// kFromZero[i] = 1 where i is not negative, else 0; for -16 <= i < 32.
constexpr double kOnes[48] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                              1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
constexpr const double* kFromZero = kOnes + 16;

/// Brings columns from `first` on up to date, two at a time, and makes product = A next.
template <int kVectorBytes>
ECHOTRAIN_INLINE void update_and_multiply(const Reduction& r, std::int64_t first) {
  using V = Vectors<kVectorBytes>;
  using Lanes = typename V::Lanes;
  constexpr std::int64_t kLanes = V::kLanes;
  const std::int64_t n = r.a->columns(), end = rounded_up(n, kLanes);
  const Planes<double>&v = r.v, &w = r.w, &u = r.next, &p = r.product;
  for (std::int64_t j = first; j < n; j += 2) {
    const bool two = j + 1 < n;
    const std::int64_t other = two ? j + 1 : j;
    const Planes<double> a = r.a->row(j), b = r.a->row(other);
    const double keep = two ? 1 : 0;  // factor of the second column
    const double vr0 = v.re[j], vi0 = v.im[j], wr0 = w.re[j], wi0 = w.im[j], ur0 = u.re[j], ui0 = u.im[j];
    const double vr1 = v.re[other], vi1 = v.im[other], wr1 = w.re[other], wi1 = w.im[other];
    const double ur1 = keep * u.re[other], ui1 = keep * u.im[other];
    Lanes re0{}, im0{}, re1{}, im1{};
    const auto keep_from = [](std::int64_t i, Lanes& of) ECHOTRAIN_INLINE_LAMBDA {
      Lanes mask;
      V::load(kFromZero + i, mask);
      of *= mask;
    };
    const auto step = [&](std::int64_t i, auto masked) ECHOTRAIN_INLINE_LAMBDA {
      Lanes vr, vi, wr, wi, ur, ui, pr, pi, ar, ai, br, bi;
      V::load(v.re + i, vr);
      V::load(v.im + i, vi);
      V::load(w.re + i, wr);
      V::load(w.im + i, wi);
      V::load(a.re + i, ar);
      V::load(a.im + i, ai);
      // v conj(w_j) + w conj(v_j)
      ar -= vr * wr0 + vi * wi0 + wr * vr0 + wi * vi0;
      ai -= vi * wr0 - vr * wi0 + wi * vr0 - wr * vi0;
      if (two) {
        V::load(b.re + i, br);
        V::load(b.im + i, bi);
        br -= vr * wr1 + vi * wi1 + wr * vr1 + wi * vi1;
        bi -= vi * wr1 - vr * wi1 + wi * vr1 - wr * vi1;
      } else {
        br = bi = Lanes{};
      }
      if constexpr (masked) {  // elements above the diagonal stay 0
        keep_from(i - j, ar);
        keep_from(i - j - 1, ai);
        keep_from(i - other, br);
        keep_from(i - other - 1, bi);
      }
      V::store(ar, a.re + i);
      V::store(ai, a.im + i);
      if (two) {
        V::store(br, b.re + i);
        V::store(bi, b.im + i);
      }
      V::load(p.re + i, pr);
      V::load(p.im + i, pi);
      pr += ar * ur0 - ai * ui0 + br * ur1 - bi * ui1;
      pi += ar * ui0 + ai * ur0 + br * ui1 + bi * ur1;
      V::store(pr, p.re + i);
      V::store(pi, p.im + i);
      // The columns are rows, too; their diagonals count once.
      V::load(u.re + i, ur);
      V::load(u.im + i, ui);
      if constexpr (masked) {
        keep_from(i - j - 1, ar);
        keep_from(i - other - 1, br);
      }
      re0 += ar * ur + ai * ui;
      im0 += ar * ui - ai * ur;
      re1 += br * ur + bi * ui;
      im1 += br * ui - bi * ur;
    };
    std::int64_t i = j / kLanes * kLanes;
    for (const std::int64_t begin = i; i < std::min(end, begin + 2 * kLanes); i += kLanes) step(i, std::true_type());
    for (; i < end; i += kLanes) step(i, std::false_type());
    for (std::int64_t l = 0; l < kLanes; ++l) {
      p.re[j] += re0[l];
      p.im[j] += im0[l];
      p.re[other] += keep * re1[l];
      p.im[other] += keep * im1[l];
    }
  }
}

ECHOTRAIN_VECTOR_CLONES(void reduce_columns(const Reduction& r, std::int64_t first),
                        update_and_multiply<kVectorBytes>(r, first))

/// A tridiagonal matrix T with A = H_0 H_1 ... T ... H_1^H H_0^H, where H_i = 1 - tau_i v_i v_i^H and v_i lies in row i
/// of A's memory, from element i + 1 on.
struct Tridiagonal {
  std::vector<double> diagonal, below;
  std::vector<cdouble> taus;
};

Tridiagonal tridiagonal(const ThreadPool& threads, SplitMatrix& a) {
  const std::int64_t n = a.columns();
  SplitMatrix vectors(4, n);
  Reduction r{&a, vectors.row(0), vectors.row(1), vectors.row(2), vectors.row(3)};
  Tridiagonal out{std::vector<double>(static_cast<std::size_t>(n)), std::vector<double>(static_cast<std::size_t>(n)),
                  std::vector<cdouble>(static_cast<std::size_t>(n))};
  for (std::int64_t i = 0; i < n; ++i) {
    threads.check_stop();
    const Planes<double> column = a.row(i);
    for (std::int64_t k = i; k < n; ++k) {  // up to date
      column.re[k] -= r.v.re[k] * r.w.re[i] + r.v.im[k] * r.w.im[i] + r.w.re[k] * r.v.re[i] + r.w.im[k] * r.v.im[i];
      column.im[k] -= r.v.im[k] * r.w.re[i] - r.v.re[k] * r.w.im[i] + r.w.im[k] * r.v.re[i] - r.w.re[k] * r.v.im[i];
    }
    const auto at = static_cast<std::size_t>(i);
    out.diagonal[at] = column.re[i];
    if (i + 1 == n) break;
    // Makes the reflector that leaves one real element below the diagonal.
    const cdouble head(column.re[i + 1], column.im[i + 1]);
    double rest = 0;
    for (std::int64_t k = i + 2; k < n; ++k) rest += column.re[k] * column.re[k] + column.im[k] * column.im[k];
    cdouble tau = 0, by = 0;
    double left = head.real();
    if (rest > 0 || head.imag() != 0) {
      left = -std::copysign(std::sqrt(std::norm(head) + rest), head.real());
      tau = cdouble((left - head.real()) / left, -head.imag() / left);
      by = 1.0 / (head - left);
    }
    out.below[at] = left;
    out.taus[at] = tau;
    for (std::int64_t k = 0; k < a.step(); ++k) r.next.re[k] = r.next.im[k] = r.product.re[k] = r.product.im[k] = 0;
    column.re[i + 1] = 1;
    column.im[i + 1] = 0;
    for (std::int64_t k = i + 2; k < n; ++k) {
      const cdouble scaled = cdouble(column.re[k], column.im[k]) * by;
      column.re[k] = scaled.real();
      column.im[k] = scaled.imag();
    }
    std::copy(column.re + i + 1, column.re + n, r.next.re + i + 1);
    std::copy(column.im + i + 1, column.im + n, r.next.im + i + 1);
    reduce_columns(r, i + 1);
    // w = tau A v - (tau (A v)^H v conj(tau) / 2) v, with which H^H A H = A - v w^H - w v^H.
    cdouble dot = 0;
    for (std::int64_t k = i + 1; k < n; ++k) {
      const cdouble p = tau * cdouble(r.product.re[k], r.product.im[k]);
      r.product.re[k] = p.real();
      r.product.im[k] = p.imag();
      dot += std::conj(p) * cdouble(r.next.re[k], r.next.im[k]);
    }
    const cdouble share = -0.5 * tau * dot;
    for (std::int64_t k = i + 1; k < n; ++k) {
      const cdouble w = cdouble(r.product.re[k], r.product.im[k]) + share * cdouble(r.next.re[k], r.next.im[k]);
      r.product.re[k] = w.real();
      r.product.im[k] = w.imag();
    }
    std::swap(r.v, r.next);
    std::swap(r.w, r.product);
  }
  return out;
}

/// A Givens rotation of neighbouring columns: (c a - s b, s a + c b).
struct Rotation {
  double c, s;
};
/// Rotations of columns first and first + 1, then of first + 1 and the next, and so on.
struct Sweep {
  std::int64_t first;
  std::size_t begin, end;
};

/// columns: [n, kRowsTogether]
template <int kVectorBytes>
ECHOTRAIN_INLINE void rotate(const std::vector<Sweep>& sweeps, const std::vector<Rotation>& rotations,
                             double* columns) {
  using V = Vectors<kVectorBytes>;
  constexpr std::int64_t kParts = std::min<std::int64_t>(4, kRowsTogether / V::kLanes);
  for (const Sweep& sweep : sweeps)
    for (std::int64_t part = 0; part < kRowsTogether; part += kParts * V::kLanes) {
      double* at = columns + sweep.first * kRowsTogether + part;
      typename V::Lanes own[kParts], next;
      for (std::int64_t i = 0; i < kParts; ++i) V::load(at + i * V::kLanes, own[i]);
      for (std::size_t k = sweep.begin; k < sweep.end; ++k, at += kRowsTogether) {
        const Rotation turn = rotations[k];
        for (std::int64_t i = 0; i < kParts; ++i) {
          V::load(at + kRowsTogether + i * V::kLanes, next);
          V::store(own[i] * turn.c - next * turn.s, at + i * V::kLanes);
          own[i] = own[i] * turn.s + next * turn.c;
        }
      }
      for (std::int64_t i = 0; i < kParts; ++i) V::store(own[i], at + i * V::kLanes);
    }
}

ECHOTRAIN_VECTOR_CLONES(void rotate_columns(const std::vector<Sweep>& sweeps, const std::vector<Rotation>& rotations,
                                            double* columns),
                        rotate<kVectorBytes>(sweeps, rotations, columns))

/// Makes T diagonal, and a matrix Z of its eigenvectors, [rows / kRowsTogether, n, kRowsTogether].
class Diagonalization {
 public:
  Diagonalization(ThreadPool& threads, Tridiagonal& t)
      : threads_(threads), t_(t), n_(static_cast<std::int64_t>(t.diagonal.size())) {
    z_.resize(static_cast<std::size_t>(rounded_up(n_, kRowsTogether) * n_));
    for (std::int64_t i = 0; i < n_; ++i) z_[static_cast<std::size_t>(index(i, i))] = 1;
    rotations_.reserve(kRotationsTogether + t.diagonal.size());
  }
  double at(std::int64_t row, std::int64_t column) const { return z_[static_cast<std::size_t>(index(row, column))]; }

  void run() {
    constexpr std::int64_t kMostSweeps = 30;  // per value; two or three are usual
    // Too small to matter when added to a matrix whose largest element is 1.
    constexpr double kNothing = std::numeric_limits<double>::epsilon();
    std::vector<double>& below = t_.below;
    std::int64_t sweeps = 0;
    for (std::int64_t end = n_ - 1; end > 0;) {
      const auto is_zero = [&](std::int64_t i) { return std::abs(below[static_cast<std::size_t>(i)]) <= kNothing; };
      if (is_zero(end - 1)) {
        --end;
        continue;
      }
      threads_.check_stop();
      if (++sweeps > kMostSweeps * n_) throw std::runtime_error("hermitian_eigen: no convergence");
      std::int64_t start = end - 1;
      while (start > 0 && !is_zero(start - 1)) --start;
      sweep(static_cast<std::size_t>(start), static_cast<std::size_t>(end));
      if (rotations_.size() >= kRotationsTogether) apply();
    }
    apply();
  }

 private:
  std::int64_t index(std::int64_t row, std::int64_t column) const {
    return (row / kRowsTogether * n_ + column) * kRowsTogether + row % kRowsTogether;
  }

  /// One implicit step with Wilkinson's shift on elements start..end.
  void sweep(std::size_t start, std::size_t end) {
    double *d = t_.diagonal.data(), *e = t_.below.data();
    const double half = (d[end - 1] - d[end]) / 2, last = e[end - 1];
    const double shift = d[end] - last / (half + std::copysign(std::hypot(half, last), half)) * last;
    double x = d[start] - shift, z = e[start];  // the rotation makes (r, 0) of these two
    const std::size_t begin = rotations_.size();
    for (std::size_t k = start; k < end; ++k) {
      const double r = std::sqrt(x * x + z * z);
      const double c = r > 0 ? x / r : 1, s = r > 0 ? -z / r : 0;
      rotations_.push_back({c, s});
      if (k > start) e[k - 1] = r;
      const double a = d[k], b = d[k + 1], of = e[k];
      const double left = c * a - s * of, right = c * of - s * b;  // the first of the two rows, rotated
      d[k] = c * left - s * right;
      d[k + 1] = a + b - d[k];
      e[k] = s * left + c * right;
      if (k + 1 == end) break;
      x = e[k];
      z = -s * e[k + 1];
      e[k + 1] *= c;
    }
    sweeps_.push_back({static_cast<std::int64_t>(start), begin, rotations_.size()});
  }

  void apply() {
    threads_.parallel_for(rounded_up(n_, kRowsTogether) / kRowsTogether, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block)
        rotate_columns(sweeps_, rotations_, z_.data() + block * n_ * kRowsTogether);
    });
    sweeps_.clear();
    rotations_.clear();
  }

  ThreadPool& threads_;
  Tridiagonal& t_;
  std::int64_t n_;
  std::vector<double> z_;
  std::vector<Sweep> sweeps_;
  std::vector<Rotation> rotations_;
};

/// Multiplies kColumnsTogether columns of z, [element, kColumnsTogether] each of two planes, by H_0 H_1 ... from the
/// left.
template <int kVectorBytes>
ECHOTRAIN_INLINE void reflect(const SplitMatrix& a, const std::vector<cdouble>& taus, Planes<double> z) {
  using V = Vectors<kVectorBytes>;
  using Lanes = typename V::Lanes;
  constexpr std::int64_t kParts = std::min<std::int64_t>(2, kColumnsTogether / V::kLanes);
  const std::int64_t n = a.columns();
  for (std::int64_t part = 0; part < kColumnsTogether; part += kParts * V::kLanes)
    for (std::int64_t i = n - 2; i >= 0; --i) {
      const cdouble tau = taus[static_cast<std::size_t>(i)];
      const Planes<const double> v = a.row(i);
      Lanes rr[kParts] = {}, ii[kParts] = {}, ri[kParts] = {}, ir[kParts] = {}, re, im;
      for (std::int64_t k = i + 1; k < n; ++k)
        for (std::int64_t q = 0; q < kParts; ++q) {
          V::load(z.re + k * kColumnsTogether + part + q * V::kLanes, re);
          V::load(z.im + k * kColumnsTogether + part + q * V::kLanes, im);
          rr[q] += v.re[k] * re;
          ii[q] += v.im[k] * im;
          ri[q] += v.re[k] * im;
          ir[q] += v.im[k] * re;
        }
      Lanes sr[kParts], si[kParts];  // tau v^H z
      for (std::int64_t q = 0; q < kParts; ++q) {
        const Lanes dr = rr[q] + ii[q], di = ri[q] - ir[q];
        sr[q] = tau.real() * dr - tau.imag() * di;
        si[q] = tau.real() * di + tau.imag() * dr;
      }
      for (std::int64_t k = i + 1; k < n; ++k)
        for (std::int64_t q = 0; q < kParts; ++q) {
          double *to_re = z.re + k * kColumnsTogether + part + q * V::kLanes,
                 *to_im = z.im + k * kColumnsTogether + part + q * V::kLanes;
          V::load(to_re, re);
          V::load(to_im, im);
          V::store(re - (v.re[k] * sr[q] - v.im[k] * si[q]), to_re);
          V::store(im - (v.re[k] * si[q] + v.im[k] * sr[q]), to_im);
        }
    }
}

ECHOTRAIN_VECTOR_CLONES(void reflect_columns(const SplitMatrix& a, const std::vector<cdouble>& taus, Planes<double> z),
                        reflect<kVectorBytes>(a, taus, z))

/// Divides all elements by the largest absolute value, which it returns.
double scale_to_one(SplitMatrix& matrix) {
  const std::int64_t n = matrix.columns();
  double largest = 0;
  for (std::int64_t p = 0; p < n; ++p) {
    const Planes<double> row = matrix.row(p);
    for (std::int64_t q = p; q < n; ++q) largest = std::max({largest, std::abs(row.re[q]), std::abs(row.im[q])});
  }
  if (!(largest > 0)) return 1;
  for (std::int64_t p = 0; p < n; ++p) {
    const Planes<double> row = matrix.row(p);
    for (std::int64_t q = p; q < n; ++q) {
      row.re[q] /= largest;
      row.im[q] /= largest;
    }
    std::fill_n(row.re, p, 0.0);
    std::fill_n(row.im, p, 0.0);
  }
  return largest;
}

}  // namespace

SplitMatrix::SplitMatrix(std::int64_t rows, std::int64_t columns)
    : rows_(rows),
      columns_(columns),
      step_(rounded_up(columns, kTileColumns) + kTileColumns),
      imaginary_(rows * step_),
      memory_(static_cast<std::size_t>(2 * rows * step_)) {}

std::uint64_t SplitMatrix::bytes_of(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::uint64_t>(2 * rows * (rounded_up(columns, kTileColumns) + kTileColumns)) * sizeof(double);
}

void add_gram(ThreadPool& threads, const SplitMatrix& factor, SplitMatrix& matrix) {
  threads.parallel_for((factor.columns() + kGramRows - 1) / kGramRows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece)
      add_gram_rows(factor, piece * kGramRows, std::min(factor.columns(), (piece + 1) * kGramRows), matrix);
  });
}

HermitianEigen hermitian_eigen(ThreadPool& threads, SplitMatrix matrix, double share) {
  const std::int64_t n = matrix.columns();
  const double scale = scale_to_one(matrix);
  Tridiagonal t = tridiagonal(threads, matrix);
  Diagonalization z(threads, t);
  z.run();
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](std::int64_t k) { return t.diagonal[static_cast<std::size_t>(k)]; };
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return value(a) < value(b); });
  const double least = share * value(order.back());
  if (std::isfinite(least))
    order.erase(order.begin(), std::find_if(order.begin(), order.end(), [&](auto k) { return value(k) >= least; }));
  const auto kept = static_cast<std::int64_t>(order.size());
  HermitianEigen out{{}, SplitMatrix(n, kept)};
  for (const std::int64_t k : order) out.values.push_back(scale * value(k));
  threads.parallel_for(rounded_up(kept, kColumnsTogether) / kColumnsTogether, 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         std::vector<double> columns(static_cast<std::size_t>(2 * n * kColumnsTogether));
                         const Planes<double> both{columns.data(), columns.data() + n * kColumnsTogether};
                         for (std::int64_t first = begin * kColumnsTogether;
                              first < std::min(kept, end * kColumnsTogether); first += kColumnsTogether) {
                           const std::int64_t width = std::min(kColumnsTogether, kept - first);
                           std::fill(columns.begin(), columns.end(), 0.0);
                           for (std::int64_t i = 0; i < n; ++i)
                             for (std::int64_t k = 0; k < width; ++k)
                               both.re[i * kColumnsTogether + k] = z.at(i, order[static_cast<std::size_t>(first + k)]);
                           reflect_columns(matrix, t.taus, both);
                           for (std::int64_t i = 0; i < n; ++i)
                             for (std::int64_t k = 0; k < width; ++k) {
                               // Row p of the matrix held column p of its conjugate.
                               out.vectors.row(i).re[first + k] = both.re[i * kColumnsTogether + k];
                               out.vectors.row(i).im[first + k] = -both.im[i * kColumnsTogether + k];
                             }
                         }
                       });
  return out;
}

}  // namespace echotrain::numerics
