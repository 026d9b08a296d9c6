// The exact transform written the way one writes it first. Compiled with fast mathematics, so that the compiler turns
// the loop into vectors with its vector library.
#include <cmath>
#include <cstdint>
#include <numbers>

void sum_of_waves(const float* kx, const float* ky, const float* kz, const float* re, const float* im,
                  std::int64_t samples, float x, float y, float z, float* image);

__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) void sum_of_waves(
    const float* kx, const float* ky, const float* kz, const float* re, const float* im, std::int64_t samples, float x,
    float y, float z, float* image) {
  float sum_re = 0, sum_im = 0;
  for (std::int64_t s = 0; s < samples; ++s) {
    const float angle = 2 * std::numbers::pi_v<float> * (kx[s] * x + ky[s] * y + kz[s] * z);
    // Two cosines, because the vector library has no function for sine and cosine of one angle that compilers use.
    const float cosine = cosf(angle), sine = cosf(angle - std::numbers::pi_v<float> / 2);
    sum_re += re[s] * cosine - im[s] * sine;
    sum_im += re[s] * sine + im[s] * cosine;
  }
  image[0] = sum_re;
  image[1] = sum_im;
}
