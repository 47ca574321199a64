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

// -- one row times tiles
//
// Lanes are not columns here. A vector of codes holds several rows of a face, a word of it 4 codes of eight bits or 8 of four; shifting all
// words by one code after the other gives vectors of (row, word) for each code, which meet a vector of the left side's elements for those rows. Sums over
// rows are left to the end, once for all tiles.

#if defined(__AVX512F__)

TESSERA_INLINE void prefetch_tile(const std::uint8_t* tile, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(tile + i);
}

// Sixteen factors of a face: the left side's elements times two to the rows' exponents.
TESSERA_INLINE __m512 factors(const float* left, const std::uint8_t* exponents) {
  const __m512i e = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(exponents))), 23);
  return _mm512_mul_ps(_mm512_loadu_ps(left), _mm512_castsi512_ps(e));
}

void row_times_tiles8(const float* left, const std::uint8_t* tiles, std::size_t stride, std::size_t down, float* out) {
  const __m512i low7 = _mm512_set1_epi32(0x7f), sign = _mm512_set1_epi32(-0x7fffffff - 1);
  for (std::size_t across = 0; across < 2; ++across) {
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    for (std::size_t i = 0; i < down; ++i) {
      const std::uint8_t* tile = tiles + i * stride;
      if (across == 0) prefetch_tile(tile + 2 * stride, 1088);
      for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t face = 2 * half + across;
        const __m512 scaled = factors(left + i * 32 + half * FACE, tile + face * FACE);
        const std::uint8_t* codes = tile + EXPONENTS + face * 256;
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {  // four rows of sixteen codes
          const __m512i rows = _mm512_setr_epi32(4 * r, 4 * r, 4 * r, 4 * r, 4 * r + 1, 4 * r + 1, 4 * r + 1, 4 * r + 1, 4 * r + 2, 4 * r + 2, 4 * r + 2, 4 * r + 2,
                                                 4 * r + 3, 4 * r + 3, 4 * r + 3, 4 * r + 3);
          const __m512 factor = _mm512_permutexvar_ps(rows, scaled);
          const __m512i words = _mm512_loadu_si512(codes + 64 * r);
#pragma GCC unroll 4
          for (unsigned s = 0; s < 4; ++s) {
            const __m512i code = s ? _mm512_srli_epi32(words, 8 * s) : words;
            const __m512i magnitude = _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_and_si512(code, low7)));
            const __m512i signs = s < 3 ? _mm512_slli_epi32(words, 24 - 8 * s) : words;
            const __m512 value = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(magnitude, signs, sign, 0xf8));  // magnitude | (signs & sign)
            sums[s] = _mm512_fmadd_ps(value, factor, sums[s]);
          }
        }
      }
    }
    for (int s = 0; s < 4; ++s) {  // lane 4r + w holds column 4w + s of row r
      float lanes[16];
      _mm512_storeu_ps(lanes, sums[s]);
      for (int w = 0; w < 4; ++w) out[across * FACE + 4 * w + s] = ((lanes[w] + lanes[w + 4]) + (lanes[w + 8] + lanes[w + 12])) * 0.015625f;
    }
  }
}

void row_times_tiles4(const float* left, const std::uint8_t* tiles, std::size_t stride, std::size_t down, float* out) {
  const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -0.0f, -1, -2, -3, -4, -5, -6, -7);
  const __m512i first = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  for (std::size_t across = 0; across < 2; ++across) {
    __m512 sums[8];
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) sums[s] = _mm512_setzero_ps();
    for (std::size_t i = 0; i < down; ++i) {
      const std::uint8_t* tile = tiles + i * stride;
      if (across == 0) prefetch_tile(tile + 3 * stride, 576);
      for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t face = 2 * half + across;
        const __m512 scaled = factors(left + i * 32 + half * FACE, tile + face * FACE);
        const std::uint8_t* codes = tile + EXPONENTS + face * 128;
#pragma GCC unroll 2
        for (int r = 0; r < 2; ++r) {  // eight rows of sixteen codes
          const __m512 factor = _mm512_permutexvar_ps(r ? second : first, scaled);
          const __m512i words = _mm512_loadu_si512(codes + 64 * r);
#pragma GCC unroll 8
          for (unsigned s = 0; s < 8; ++s)
            sums[s] = _mm512_fmadd_ps(_mm512_permutexvar_ps(s ? _mm512_srli_epi32(words, 4 * s) : words, values), factor, sums[s]);
        }
      }
    }
    for (int s = 0; s < 8; ++s) {  // lane 2r + w holds column 8w + s of row r
      float lanes[16];
      _mm512_storeu_ps(lanes, sums[s]);
      for (int w = 0; w < 2; ++w) {
        float sum = 0.0f;
        for (int r = 0; r < 8; ++r) sum += lanes[2 * r + w];
        out[across * FACE + 8 * w + s] = sum * 0.25f;
      }
    }
  }
}

// A bfloat16 with the bits 0x4300 | magnitude is 128 + magnitude, sign or not. So the code with sign s and magnitude m is the difference of
// s(128 + m) and s128, both made of the code's bits alone, and one dot product of that pair with (f, -f) adds f * s * m.
TESSERA_BF16 void row_times_tiles_bf16(const float* left, const std::uint8_t* tiles, std::size_t stride, std::size_t down, float* out) {
  const __m512i spread = _mm512_setr_epi32(static_cast<int>(0x00800000), static_cast<int>(0x01800101), static_cast<int>(0x02800202), static_cast<int>(0x03800303),
                                           static_cast<int>(0x04800404), static_cast<int>(0x05800505), static_cast<int>(0x06800606), static_cast<int>(0x07800707),
                                           static_cast<int>(0x08800808), static_cast<int>(0x09800909), static_cast<int>(0x0a800a0a), static_cast<int>(0x0b800b0b),
                                           static_cast<int>(0x0c800c0c), static_cast<int>(0x0d800d0d), static_cast<int>(0x0e800e0e), static_cast<int>(0x0f800f0f));
  const __m512i kept = _mm512_set1_epi32(static_cast<int>(0x8000807fu)), base = _mm512_set1_epi32(0x43004300);
  __m512 sums[2][4];
  for (auto& side : sums)
    for (auto& sum : side) sum = _mm512_setzero_ps();
  for (std::size_t i = 0; i < down; ++i) {
    const std::uint8_t* tile = tiles + i * stride;
    alignas(64) std::uint32_t pairs[EXPONENTS];
    for (std::size_t face = 0; face < 4; ++face) {
      const __m512i e = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(tile + face * FACE))), 23);
      const __m512i f = _mm512_castps_si512(_mm512_mul_ps(_mm512_loadu_ps(left + i * 32 + face / 2 * FACE), _mm512_castsi512_ps(e)));
      const __m512i minus = _mm512_xor_si512(_mm512_and_si512(f, _mm512_set1_epi32(-0x10000)), _mm512_set1_epi32(-0x7fffffff - 1));
      _mm512_store_si512(pairs + face * FACE, _mm512_or_si512(_mm512_srli_epi32(f, 16), minus));
    }
    __asm__ volatile("" : : "r"(pairs) : "memory");  // read them back from memory, where a broadcast is free; the compiler would shuffle
    const std::uint8_t* codes = tile + EXPONENTS;
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
#pragma GCC unroll 16
      for (std::size_t r = 0; r < FACE; ++r) {
#pragma GCC unroll 2
        for (std::size_t side = 0; side < 2; ++side) {  // eight sums: a dot product takes its time
          const std::size_t row = (2 * half + side) * FACE + r;
          const __m512i line = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + row * FACE)));
          const __m512i both = _mm512_ternarylogic_epi32(_mm512_shuffle_epi8(line, spread), kept, base, 0xea);  // (line & kept) | base
          sums[side][r % 4] = _mm512_dpbf16_ps(sums[side][r % 4], reinterpret_cast<__m512bh>(both),
                                               reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(pairs[row]))));
        }
      }
    }
  }
  for (std::size_t side = 0; side < 2; ++side) {
    __m512 sum = sums[side][0];
    for (std::size_t s = 1; s < 4; ++s) sum = _mm512_add_ps(sum, sums[side][s]);
    _mm512_storeu_ps(out + side * FACE, _mm512_mul_ps(sum, _mm512_set1_ps(0.015625f)));
  }
}

void row_times_tiles(const float* left, const std::uint8_t* tiles, std::size_t stride, std::size_t down, int bits, float* out) {
  if (bits == 7) {
    row_times_tiles8(left, tiles, stride, down, out);
  } else {
    row_times_tiles4(left, tiles, stride, down, out);
  }
}

#else

constexpr void (*row_times_tiles_bf16)(const float*, const std::uint8_t*, std::size_t, std::size_t, float*) = nullptr;

template <int BITS>
void times_tile(const float* left, const std::uint8_t* tile, float* out) {
  constexpr std::size_t ROW = BITS == 7 ? 16 : 8, PARTS = FACE / LANES;
  const std::uint8_t* codes = tile + EXPONENTS;
  for (std::size_t face = 0; face < 4; ++face) {
    float* to = out + face % 2 * FACE;
    f32v sum[2][PARTS];
    for (std::size_t c = 0; c < PARTS; ++c) sum[0][c] = load(to + c * LANES), sum[1][c] = f32v{};
    for (std::size_t r = 0; r < FACE; ++r) {
      const std::size_t row = face * FACE + r;
      const f32v factor = all(left[face / 2 * FACE + r] * scale_of(tile[row], BITS));
      for (std::size_t c = 0; c < PARTS; ++c) sum[r % 2][c] = fma(decode<BITS>(codes + row * ROW, c * LANES), factor, sum[r % 2][c]);
    }
    for (std::size_t c = 0; c < PARTS; ++c) store(to + c * LANES, sum[0][c] + sum[1][c]);
  }
}

void row_times_tiles(const float* left, const std::uint8_t* tiles, std::size_t stride, std::size_t down, int bits, float* out) {
  for (std::size_t c = 0; c < 2 * FACE; ++c) out[c] = 0.0f;
  for (std::size_t i = 0; i < down; ++i) {
    if (bits == 7) {
      times_tile<7>(left + i * 32, tiles + i * stride, out);
    } else {
      times_tile<3>(left + i * 32, tiles + i * stride, out);
    }
  }
}

#endif

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

#if defined(__AVX512F__)
TESSERA_BF16 void finish_bf16(const float* in, const bf16* bias, bf16* out, std::size_t count) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m512 x = _mm512_loadu_ps(in + i);
    if (bias) {
      const __m512i b = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bias + i)));
      x = _mm512_add_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  }
  for (; i < count; ++i) out[i] = round_one(bias ? in[i] + widen_one(bias[i]) : in[i]);
}
#else
constexpr void (*finish_bf16)(const float*, const bf16*, bf16*, std::size_t) = nullptr;
#endif

}  // namespace

TESSERA_DEFINE_KERNELS(MatmulKernels){product, product_bf16, make_panel, make_panel_transposed, expand, row_times_tiles, row_times_tiles_bf16, finish, finish_bf16};
