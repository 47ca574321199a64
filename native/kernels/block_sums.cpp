// Sixteen signed magnitudes add up to a small integer; one multiplication by the block's power of two makes it a value.
#include "kernels/block_sums.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#include <immintrin.h>
#endif

namespace {

using tessera::BlockFormat;

constexpr std::size_t BLOCK = 16;

// 2^(exponent - 127 - (bits - 1)): the weight of the lowest bit of a magnitude. Exponent 0 holds zeros only.
inline double weight(unsigned exponent, int bits) {
  const std::uint64_t raw = static_cast<std::uint64_t>(static_cast<int>(exponent) - 127 - (bits - 1) + 1023) << 52;
  double value;
  std::memcpy(&value, &raw, sizeof value);
  return value;
}

// Blocks [first, blocks) of one tile.
template <int BITS>
double sum_plain(const unsigned char* exponents, const unsigned char* codes, std::size_t first, std::size_t blocks) {
  constexpr int PER_BYTE = 8 / (BITS + 1), WIDTH = BITS + 1;
  double total = 0;
  for (std::size_t b = first; b < blocks; ++b) {
    int sum = 0;
    const unsigned char* from = codes + b * BLOCK / PER_BYTE;
    for (std::size_t i = 0; i < BLOCK / PER_BYTE; ++i)
      for (int p = 0; p < PER_BYTE; ++p) {
        const int code = from[i] >> (p * WIDTH) & ((1 << WIDTH) - 1), magnitude = code & ((1 << BITS) - 1);
        sum += code >> BITS ? -magnitude : magnitude;
      }
    total += sum * weight(exponents[b], BITS);
  }
  return total;
}

#if defined(__AVX512BW__) && defined(__AVX512DQ__)

// Eight sums of eight bytes each: the magnitudes without the sign bit minus those with it.
inline __m512i signed_sums(__m512i magnitude, __mmask64 negative) {
  const __m512i zero = _mm512_setzero_si512();
  return _mm512_sub_epi64(_mm512_sad_epu8(_mm512_maskz_mov_epi8(~negative, magnitude), zero),
                          _mm512_sad_epu8(_mm512_maskz_mov_epi8(negative, magnitude), zero));
}

inline __m512d weights(__m512i exponents, int bits) {
  return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_add_epi64(exponents, _mm512_set1_epi64(1023 - 127 - (bits - 1))), 52));
}

inline double sum_tile7(const unsigned char* exponents, const unsigned char* codes, std::size_t blocks) {
  const __m512i twice = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
  __m512d total = _mm512_setzero_pd();
  std::size_t b = 0;
  for (; b + 4 <= blocks; b += 4) {
    const __m512i code = _mm512_loadu_si512(codes + b * BLOCK);
    std::uint32_t four;
    std::memcpy(&four, exponents + b, 4);
    const __m512i each = _mm512_permutexvar_epi64(twice, _mm512_cvtepu8_epi64(_mm_cvtsi32_si128(static_cast<int>(four))));
    const __m512i sums = signed_sums(_mm512_and_si512(code, _mm512_set1_epi8(0x7f)), _mm512_movepi8_mask(code));
    total = _mm512_add_pd(total, _mm512_mul_pd(_mm512_cvtepi64_pd(sums), weights(each, 7)));
  }
  return _mm512_reduce_add_pd(total) + sum_plain<7>(exponents, codes, b, blocks);
}

inline double sum_tile3(const unsigned char* exponents, const unsigned char* codes, std::size_t blocks) {
  const __m512i seven = _mm512_set1_epi8(7), sign = _mm512_set1_epi8(8);
  __m512d total = _mm512_setzero_pd();
  std::size_t b = 0;
  for (; b + 8 <= blocks; b += 8) {
    const __m512i low = _mm512_loadu_si512(codes + b * BLOCK / 2), high = _mm512_srli_epi16(low, 4);
    std::uint64_t eight;
    std::memcpy(&eight, exponents + b, 8);
    const __m512i each = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<long long>(eight)));
    const __m512i sums = _mm512_add_epi64(signed_sums(_mm512_and_si512(low, seven), _mm512_test_epi8_mask(low, sign)),
                                          signed_sums(_mm512_and_si512(high, seven), _mm512_test_epi8_mask(high, sign)));
    total = _mm512_add_pd(total, _mm512_mul_pd(_mm512_cvtepi64_pd(sums), weights(each, 3)));
  }
  return _mm512_reduce_add_pd(total) + sum_plain<3>(exponents, codes, b, blocks);
}

#else

inline double sum_tile7(const unsigned char* exponents, const unsigned char* codes, std::size_t blocks) {
  return sum_plain<7>(exponents, codes, 0, blocks);
}

inline double sum_tile3(const unsigned char* exponents, const unsigned char* codes, std::size_t blocks) {
  return sum_plain<3>(exponents, codes, 0, blocks);
}

#endif

double sum(BlockFormat format, std::size_t elements, const std::byte* image, std::size_t tiles) {
  const std::size_t blocks = elements / BLOCK, size = format.tile_bytes(elements), section = format.exponent_bytes(elements);
  double total = 0;
  for (std::size_t t = 0; t < tiles; ++t) {
    const auto* exponents = reinterpret_cast<const unsigned char*>(image + t * size);
    const unsigned char* codes = exponents + section;
    bool special = false;
    for (std::size_t b = 0; b < blocks; ++b) special |= exponents[b] == 255;
    if (special) return std::numeric_limits<double>::quiet_NaN();
    switch (format.magnitude_bits) {
      case 7: total += sum_tile7(exponents, codes, blocks); break;
      case 3: total += sum_tile3(exponents, codes, blocks); break;
      default: total += sum_plain<1>(exponents, codes, 0, blocks);
    }
  }
  return total;
}

}  // namespace

TESSERA_DEFINE_KERNELS(BlockSumKernels){sum};
