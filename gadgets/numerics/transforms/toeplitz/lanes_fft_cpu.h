// FFTs of sixteen lines side by side, one in each lane of a vector, for lines that are half zeros and of which only
// half of the result is needed: a transform of 2m points is then two of m points, of the even and of the odd
// frequencies, and no work is done on zeros.
#pragma once

#include <cstdint>
#include <vector>

namespace echotrain::numerics::cpu {

constexpr std::int64_t kLanes = 16;
/// A point of each line: kLanes real parts and then kLanes imaginary ones.
constexpr std::int64_t kPoint = 2 * kLanes;

/// The smallest m >= n, and >= 2, with no prime factors but 2, 3 and 5.
std::int64_t fast_half(std::int64_t n);

/// An axis of n points, padded with zeros to padded() = 2 half().
class LanesAxis {
 public:
  explicit LanesAxis(std::int64_t n);

  struct Stage {
    int radix;
    std::int64_t count, stride;  ///< transforms of `radix` points: count * stride
    std::size_t twiddles;        ///< begin of their factors, [count, radix - 1] complex numbers
  };
  std::int64_t n() const { return n_; }
  std::int64_t half() const { return m_; }
  std::int64_t padded() const { return 2 * m_; }
  const std::vector<Stage>& stages() const { return stages_; }
  const float* twiddles(const Stage& stage) const { return twiddles_.data() + stage.twiddles; }
  /// exp(-i pi j / m), j < m: factors that move the odd frequencies to even ones.
  const float* modulation() const { return modulation_.data(); }

 private:
  std::int64_t n_, m_;
  std::vector<Stage> stages_;
  std::vector<float> twiddles_, modulation_;
};

/// Point i < n is at data + kPoint * stride * i; points n .. m - 1 are 0.
struct LanesInput {
  const float* data;
  std::int64_t stride, n;
  const float* modulation = nullptr;  ///< multiplies point i
  bool swapped = false;               ///< real and imaginary parts are swapped
};
/// Point i < n goes to data + kPoint * stride * i; the others are dropped.
struct LanesOutput {
  enum class Kind { store, multiply, combine };
  float* data;
  std::int64_t stride, n;
  Kind kind = Kind::store;
  const float* factor = nullptr;      ///< multiply: real, [n, kLanes]
  const float* addend = nullptr;      ///< combine: point i times conj(modulation[i]), plus addend, points one by one
  const float* modulation = nullptr;  ///< combine
  bool swapped = false;               ///< real and imaginary parts are swapped; multiply: never, combine: always
};

/// output = sum_i input[i] exp(-2 pi i i k / m). The inverse, unscaled, is the same with both sides swapped. `scratch`:
/// 2 m points.
void lanes_fft(const LanesAxis& axis, LanesInput input, LanesOutput output, float* scratch);

/// to[j, i] = from[i, j] for i < 8 row_blocks, j < 8 column_blocks; rows are `from_stride` and `to_stride` floats
/// apart.
void transpose_blocks(const float* from, std::int64_t from_stride, std::int64_t row_blocks, std::int64_t column_blocks,
                      float* to, std::int64_t to_stride);

}  // namespace echotrain::numerics::cpu
