#include "kernels/matmul.hpp"

#include "kernels/simd.hpp"

namespace {

using tessera::LeftStrip;
using tessera::PANEL;
using tessera::STRIP;

// Columns at a time: as many as leave their sums in registers.
constexpr std::size_t WIDE = LANES >= 16 ? 4 : 2;

template <std::size_t ROWS>
void product_rows(LeftStrip left, const std::uint32_t* panel, std::size_t pairs, float* out, std::size_t stride, bool first) {
  for (std::size_t column = 0; column < PANEL; column += WIDE * LANES) {
    f32v sum[ROWS][WIDE];
    for (std::size_t r = 0; r < ROWS; ++r)
      for (std::size_t c = 0; c < WIDE; ++c) sum[r][c] = first ? f32v{} : load(out + r * stride + column + c * LANES);
    for (std::size_t p = 0; p < pairs; ++p) {
      Pair right[WIDE];
      for (std::size_t c = 0; c < WIDE; ++c) right[c] = split(*reinterpret_cast<const u32v_any*>(panel + p * PANEL + column + c * LANES));
      for (std::size_t r = 0; r < ROWS; ++r) {
        const std::uint32_t word = left.words[r * left.row + p * left.pair];
        const f32v low = all(widen_one(static_cast<bf16>(word))), high = all(widen_one(static_cast<bf16>(word >> 16)));
        for (std::size_t c = 0; c < WIDE; ++c) sum[r][c] = fma(high, right[c].high, fma(low, right[c].low, sum[r][c]));
      }
    }
    for (std::size_t r = 0; r < ROWS; ++r)
      for (std::size_t c = 0; c < WIDE; ++c) store(out + r * stride + column + c * LANES, sum[r][c]);
  }
}

void product(LeftStrip left, std::size_t rows, const std::uint32_t* panel, std::size_t pairs, float* out, std::size_t stride, bool first) {
  switch (rows) {
    case 1: return product_rows<1>(left, panel, pairs, out, stride, first);
    case 2: return product_rows<2>(left, panel, pairs, out, stride, first);
    case 3: return product_rows<3>(left, panel, pairs, out, stride, first);
    case 4: return product_rows<4>(left, panel, pairs, out, stride, first);
    case 5: return product_rows<5>(left, panel, pairs, out, stride, first);
    case 6: return product_rows<6>(left, panel, pairs, out, stride, first);
  }
}

#if defined(__AVX512F__)
#define TESSERA_BF16 __attribute__((target("avx512bf16,avx512f,avx512bw,avx512vl,avx512dq")))

template <std::size_t ROWS>
TESSERA_BF16 void product_rows_bf16(LeftStrip left, const std::uint32_t* panel, std::size_t pairs, float* out, std::size_t stride, bool first) {
  __m512 sum[ROWS][4];
#pragma GCC unroll 6
  for (std::size_t r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (std::size_t c = 0; c < 4; ++c) sum[r][c] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(out + r * stride + c * 16);
  const std::uint32_t* words = left.words;
  for (std::size_t p = 0; p < pairs; ++p, panel += PANEL, words += left.pair) {
    __m512bh right[4];
#pragma GCC unroll 4
    for (std::size_t c = 0; c < 4; ++c) right[c] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel + c * 16));
#pragma GCC unroll 6
    for (std::size_t r = 0; r < ROWS; ++r) {
      const __m512bh word = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(words[r * left.row])));
#pragma GCC unroll 4
      for (std::size_t c = 0; c < 4; ++c) sum[r][c] = _mm512_dpbf16_ps(sum[r][c], word, right[c]);
    }
  }
#pragma GCC unroll 6
  for (std::size_t r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (std::size_t c = 0; c < 4; ++c) _mm512_storeu_ps(out + r * stride + c * 16, sum[r][c]);
}

TESSERA_BF16 void product_bf16(LeftStrip left, std::size_t rows, const std::uint32_t* panel, std::size_t pairs, float* out, std::size_t stride, bool first) {
  switch (rows) {
    case 1: return product_rows_bf16<1>(left, panel, pairs, out, stride, first);
    case 2: return product_rows_bf16<2>(left, panel, pairs, out, stride, first);
    case 3: return product_rows_bf16<3>(left, panel, pairs, out, stride, first);
    case 4: return product_rows_bf16<4>(left, panel, pairs, out, stride, first);
    case 5: return product_rows_bf16<5>(left, panel, pairs, out, stride, first);
    case 6: return product_rows_bf16<6>(left, panel, pairs, out, stride, first);
  }
}
#else
constexpr void (*product_bf16)(LeftStrip, std::size_t, const std::uint32_t*, std::size_t, float*, std::size_t, bool) = nullptr;
#endif

// -- panels

TESSERA_INLINE std::uint32_t word_of(bf16 low, bf16 high) { return static_cast<std::uint32_t>(low) | static_cast<std::uint32_t>(high) << 16; }

void make_panel(const bf16* right, std::size_t stride, std::size_t rows, std::size_t columns, std::uint32_t* panel) {
  for (std::size_t k = 0; k < rows; k += 2, panel += PANEL) {
    const bf16 *low = right + k * stride, *high = low + stride;
    std::size_t c = 0;
    if (k + 1 < rows) {
#if defined(__AVX512F__)
      for (; c + 16 <= columns; c += 16) {
        const __m512i a = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(low + c)));
        const __m512i b = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(high + c)));
        _mm512_storeu_si512(panel + c, _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
      }
#endif
      for (; c < columns; ++c) panel[c] = word_of(low[c], high[c]);
    } else {
      for (; c < columns; ++c) panel[c] = low[c];
    }
    for (; c < PANEL; ++c) panel[c] = 0;
  }
}

void make_panel_transposed(const bf16* right, std::size_t stride, std::size_t rows, std::size_t columns, std::uint32_t* panel) {
  const std::size_t pairs = (rows + 1) / 2;
  constexpr std::size_t BLOCK = 16;  // a cache line of the panel
  for (std::size_t top = 0; top < pairs; top += BLOCK) {
    const std::size_t bottom = top + BLOCK < pairs ? top + BLOCK : pairs;
    for (std::size_t left = 0; left < PANEL; left += BLOCK) {
      for (std::size_t c = left; c < left + BLOCK; ++c) {
        for (std::size_t p = top; p < bottom; ++p) {
          std::uint32_t word = 0;
          if (c < columns) std::memcpy(&word, right + c * stride + 2 * p, 2 * p + 1 < rows ? 4 : 2);
          panel[p * PANEL + c] = word;
        }
      }
    }
  }
}

// -- block floats: 64 exponents of the rows of four 16x16 faces, then their codes

constexpr std::size_t FACE = 16, EXPONENTS = 64;

// 2^(exponent - 127 - (bits - 1)); zero for exponent zero, as subnormal numbers are.
TESSERA_INLINE float scale_of(std::uint8_t exponent, int bits) {
  const std::uint32_t u = static_cast<std::uint32_t>(exponent) << 23;
  float f;
  std::memcpy(&f, &u, 4);
  return f * (bits == 7 ? 0.015625f : 0.25f);
}

TESSERA_INLINE u32v wide_codes(const std::uint8_t* codes) {
#if defined(__AVX512F__)
  return reinterpret_cast<u32v>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes))));
#elif defined(__AVX2__)
  return reinterpret_cast<u32v>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes))));
#else
  u32v v{};
  for (std::size_t i = 0; i < LANES; ++i) v[i] = codes[i];
  return v;
#endif
}

// LANES codes of a face row as sign and magnitude, in fp32.
TESSERA_INLINE f32v decode8(const std::uint8_t* codes) {
  const u32v v = wide_codes(codes);
  const f32v magnitude = __builtin_convertvector(reinterpret_cast<i32v>(v & 0x7fu), f32v);
  return real(ubits(magnitude) | (v & 0x80u) << 24);
}

TESSERA_INLINE f32v decode4(const std::uint8_t* codes) {
#if defined(__AVX512F__)
  std::uint32_t low, high;
  std::memcpy(&low, codes, 4);
  std::memcpy(&high, codes + 4, 4);
  const __m512i both = _mm512_mask_set1_epi32(_mm512_set1_epi32(static_cast<int>(low)), 0xff00, static_cast<int>(high));
  const __m512i shifted = _mm512_srlv_epi32(both, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
  const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -0.0f, -1, -2, -3, -4, -5, -6, -7);
  return reinterpret_cast<f32v>(_mm512_permutexvar_ps(shifted, values));
#else
  u32v v{};
  for (std::size_t i = 0; i < LANES; ++i) v[i] = codes[i / 2] >> (i % 2 * 4);
  const f32v magnitude = __builtin_convertvector(reinterpret_cast<i32v>(v & 0x7u), f32v);
  return real(ubits(magnitude) | (v & 0x8u) << 28);
#endif
}

template <int BITS>
TESSERA_INLINE f32v decode(const std::uint8_t* face_row, std::size_t first) {
  return BITS == 7 ? decode8(face_row + first) : decode4(face_row + first / 2);
}

template <int BITS>
void expand_tile(const std::uint8_t* tile, std::uint32_t* panel) {
  constexpr std::size_t ROW = BITS == 7 ? 16 : 8;  // bytes
  const std::uint8_t* codes = tile + EXPONENTS;
  for (std::size_t face = 0; face < 4; ++face) {
    std::uint32_t* to = panel + face / 2 * (FACE / 2) * PANEL + face % 2 * FACE;
    for (std::size_t r = 0; r < FACE; r += 2, to += PANEL) {
      const std::size_t row = face * FACE + r;
      const float low = scale_of(tile[row], BITS), high = scale_of(tile[row + 1], BITS);
      for (std::size_t c = 0; c < FACE; c += LANES) {
        const f32v a = decode<BITS>(codes + row * ROW, c) * low, b = decode<BITS>(codes + (row + 1) * ROW, c) * high;
        *reinterpret_cast<u32v_any*>(to + c) = (ubits(a) >> 16) | (ubits(b) & 0xffff0000u);
      }
    }
  }
}

void expand(const std::uint8_t* tile, int bits, std::uint32_t* panel) {
  if (bits == 7) {
    expand_tile<7>(tile, panel);
  } else {
    expand_tile<3>(tile, panel);
  }
}

template <int BITS>
void times_tile(const float* left, const std::uint8_t* tile, float* out) {
  constexpr std::size_t ROW = BITS == 7 ? 16 : 8, PARTS = FACE / LANES;
  const std::uint8_t* codes = tile + EXPONENTS;
  float scaled[EXPONENTS];  // each row's factor and exponent in one number
  for (std::size_t i = 0; i < EXPONENTS; i += LANES) {
    const u32v e = wide_codes(tile + i);
    store(scaled + i, load(left + i % FACE + i / (2 * FACE) * FACE) * (real(e << 23) * (BITS == 7 ? 0.015625f : 0.25f)));
  }
  for (std::size_t across = 0; across < 2; ++across) {
    f32v sum[4][PARTS];
    for (std::size_t s = 0; s < 4; ++s)
      for (std::size_t c = 0; c < PARTS; ++c) sum[s][c] = s == 0 ? load(out + across * FACE + c * LANES) : f32v{};
    for (std::size_t face = across; face < 4; face += 2) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < FACE; r += 4)
#pragma GCC unroll 4
        for (std::size_t s = 0; s < 4; ++s) {
          const std::size_t row = face * FACE + r + s;
          for (std::size_t c = 0; c < PARTS; ++c) sum[s][c] = fma(decode<BITS>(codes + row * ROW, c * LANES), all(scaled[row]), sum[s][c]);
        }
    }
    for (std::size_t c = 0; c < PARTS; ++c) store(out + across * FACE + c * LANES, (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c]));
  }
}

void row_times_tile(const float* left, const std::uint8_t* tile, int bits, float* out) {
  if (bits == 7) {
    times_tile<7>(left, tile, out);
  } else {
    times_tile<3>(left, tile, out);
  }
}

void finish(const float* in, const bf16* bias, bf16* out, std::size_t count) {
  std::size_t i = 0;
#if defined(__AVX512F__)
  for (; i + LANES <= count; i += LANES) {
    f32v x = load(in + i);
    if (bias) {
      const __m512i b = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bias + i)));
      x += real(reinterpret_cast<u32v>(b) << 16);
    }
    const u32v half = rounded(quiet(x)) >> 16;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(half)));
  }
#endif
  for (; i < count; ++i) out[i] = round_one(bias ? in[i] + widen_one(bias[i]) : in[i]);
}

}  // namespace

TESSERA_DEFINE_KERNELS(MatmulKernels){product, product_bf16, make_panel, make_panel_transposed, expand, row_times_tile, finish};
