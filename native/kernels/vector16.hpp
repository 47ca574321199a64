// Sixteen 32-bit lanes: one AVX-512 register, two of AVX2, four of SSE2 or NEON, in the compiler's own vector types.
// Intrinsics appear only where those types have no good spelling: changing width, and the maximum.
//
// Included only by sources in kernels/, inside their anonymous namespace, so that no copy of these functions is shared
// between instruction sets. (The includer includes <cstring> and, on x86, <immintrin.h>.)
#pragma once

#define TESSERA_INLINE inline __attribute__((always_inline))

#if defined(__AVX512BW__)
constexpr int WIDTH = 64;
#elif defined(__AVX2__)
constexpr int WIDTH = 32;
#else
constexpr int WIDTH = 16;
#endif
constexpr int LANES = WIDTH / 4, REGISTERS = 16 / LANES;

using u32v = std::uint32_t __attribute__((vector_size(WIDTH)));
using i32v = std::int32_t __attribute__((vector_size(WIDTH)));
using i16v = std::int16_t __attribute__((vector_size(WIDTH)));
using f32v = float __attribute__((vector_size(WIDTH)));
using u8x16 = std::uint8_t __attribute__((vector_size(16)));
using u16x8 = std::uint16_t __attribute__((vector_size(16)));
using u16x16 = std::uint16_t __attribute__((vector_size(32)));
using u32x16 = std::uint32_t __attribute__((vector_size(64)));

struct Row {
  u32v part[REGISTERS];
};

template <class Vector>
TESSERA_INLINE Vector load(const void* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class Vector>
TESSERA_INLINE void store(void* to, const Vector& v) {
  std::memcpy(to, &v, sizeof v);
}

// Past the caches, for results too large to be found there again: the line is not read before it is written. `to` must be
// aligned to the vector; end_streaming() comes before the results are handed on.
template <class Vector>
TESSERA_INLINE void stream(void* to, const Vector& v) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(Vector) == 64) return _mm512_stream_si512(static_cast<__m512i*>(to), load<__m512i>(&v));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(Vector) % 32 == 0) {
    for (std::size_t i = 0; i < sizeof(Vector) / 32; ++i)
      _mm256_stream_si256(static_cast<__m256i*>(to) + i, load<__m256i>(reinterpret_cast<const char*>(&v) + 32 * i));
    return;
  }
#endif
#if defined(__SSE2__)
  for (std::size_t i = 0; i < sizeof(Vector) / 16; ++i)
    _mm_stream_si128(static_cast<__m128i*>(to) + i, load<__m128i>(reinterpret_cast<const char*>(&v) + 16 * i));
#else
  store(to, v);
#endif
}

TESSERA_INLINE void end_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

TESSERA_INLINE bool streamable(const void* to, std::size_t step) {
  return reinterpret_cast<std::uintptr_t>(to) % 64 == 0 && step % 64 == 0;
}

template <class Vector>
TESSERA_INLINE void put_vector(void* to, const Vector& v, bool past_caches) {
  past_caches ? stream(to, v) : store(to, v);
}

template <class Function>
TESSERA_INLINE Row each(Function function) {
  Row row;
  for (int i = 0; i < REGISTERS; ++i) row.part[i] = function(i);
  return row;
}

// A row register by register: copied as a whole, it would travel in pieces too small to be read back at once.
TESSERA_INLINE Row load_row(const void* from) {
  return each([&](int i) { return load<u32v>(static_cast<const char*>(from) + i * WIDTH); });
}

TESSERA_INLINE void store_row(void* to, const Row& row) {
  for (int i = 0; i < REGISTERS; ++i) store(static_cast<char*>(to) + i * WIDTH, row.part[i]);
}

// The larger of each pair of 16-bit lanes, signed.
TESSERA_INLINE u32v max16(u32v a, u32v b) {
#if defined(__AVX512BW__)
  return (u32v)_mm512_max_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (u32v)_mm256_max_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (u32v)_mm_max_epi16((__m128i)a, (__m128i)b);
#else
  return (u32v)((i16v)a > (i16v)b ? (i16v)a : (i16v)b);
#endif
}

// Sixteen bytes to lanes and back (lanes below 256).
TESSERA_INLINE Row widen8(u8x16 bytes) {
#if defined(__AVX512BW__)
  return Row{{(u32v)_mm512_cvtepu8_epi32((__m128i)bytes)}};
#elif defined(__AVX2__)
  return Row{{(u32v)_mm256_cvtepu8_epi32((__m128i)bytes), (u32v)_mm256_cvtepu8_epi32(_mm_srli_si128((__m128i)bytes, 8))}};
#elif defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128(), low = _mm_unpacklo_epi8((__m128i)bytes, zero), high = _mm_unpackhi_epi8((__m128i)bytes, zero);
  return Row{{(u32v)_mm_unpacklo_epi16(low, zero), (u32v)_mm_unpackhi_epi16(low, zero), (u32v)_mm_unpacklo_epi16(high, zero),
              (u32v)_mm_unpackhi_epi16(high, zero)}};
#else
  const u32x16 wide = __builtin_convertvector(bytes, u32x16);
  return load_row(&wide);
#endif
}

TESSERA_INLINE u8x16 narrow8(const Row& row) {
#if defined(__AVX512BW__)
  __m128i bytes = _mm512_cvtepi32_epi8((__m512i)row.part[0]);
  __asm__("" : "+x"(bytes));  // not straight to memory: on some processors that form is several times slower
  return (u8x16)bytes;
#elif defined(__AVX2__)
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)row.part[0], (__m256i)row.part[1]), 0xd8);
  return (u8x16)_mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
#elif defined(__SSE2__)
  return (u8x16)_mm_packus_epi16(_mm_packs_epi32((__m128i)row.part[0], (__m128i)row.part[1]),
                                 _mm_packs_epi32((__m128i)row.part[2], (__m128i)row.part[3]));
#else
  return __builtin_convertvector(load<u32x16>(&row), u8x16);
#endif
}

// Eight bytes, and eight of nothing in particular.
TESSERA_INLINE u8x16 load8(const void* from) {
#if defined(__SSE2__)
  return (u8x16)_mm_loadl_epi64(static_cast<const __m128i*>(from));
#else
  u8x16 bytes{};
  std::memcpy(&bytes, from, 8);
  return bytes;
#endif
}

// The first eight bytes of both, taken in turns; and every second byte, in the first eight.
TESSERA_INLINE u8x16 interleave8(u8x16 a, u8x16 b) {
#if defined(__SSE2__)
  return (u8x16)_mm_unpacklo_epi8((__m128i)a, (__m128i)b);
#else
  return __builtin_shuffle(a, b, u8x16{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
#endif
}

TESSERA_INLINE u8x16 even8(u8x16 a) {
#if defined(__SSE2__)
  return (u8x16)_mm_packus_epi16(_mm_and_si128((__m128i)a, _mm_set1_epi16(0xff)), _mm_setzero_si128());
#else
  return __builtin_shuffle(a, u8x16{0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0});
#endif
}

// Sixteen elements of storage as float32 bits and back. Narrowing to bfloat16 keeps the upper half: exact for numbers on its grid.
struct Float32 {
  static constexpr std::size_t size = 4;
  static TESSERA_INLINE Row bits(const std::byte* from) { return load_row(from); }
  static TESSERA_INLINE void put(std::byte* to, const Row& row, bool past_caches) {
    for (int i = 0; i < REGISTERS; ++i) put_vector(to + i * WIDTH, row.part[i], past_caches);
  }
  static TESSERA_INLINE std::uint32_t bits1(const std::byte* from) { return load<std::uint32_t>(from); }
  static TESSERA_INLINE void put1(std::byte* to, std::uint32_t v) { store(to, v); }
};

struct Bfloat16 {
  static constexpr std::size_t size = 2;
  static TESSERA_INLINE Row bits(const std::byte* from) {
#if defined(__AVX512BW__)
    return Row{{(u32v)_mm512_slli_epi32(_mm512_cvtepu16_epi32(load<__m256i>(from)), 16)}};
#elif defined(__AVX2__)
    return Row{{(u32v)_mm256_slli_epi32(_mm256_cvtepu16_epi32(load<__m128i>(from)), 16),
                (u32v)_mm256_slli_epi32(_mm256_cvtepu16_epi32(load<__m128i>(from + 16)), 16)}};
#elif defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128(), low = load<__m128i>(from), high = load<__m128i>(from + 16);
    return Row{{(u32v)_mm_unpacklo_epi16(zero, low), (u32v)_mm_unpackhi_epi16(zero, low), (u32v)_mm_unpacklo_epi16(zero, high),
                (u32v)_mm_unpackhi_epi16(zero, high)}};
#else
    const u32x16 wide = __builtin_convertvector(load<u16x16>(from), u32x16) << 16;
    return load_row(&wide);
#endif
  }
  static TESSERA_INLINE void put(std::byte* to, const Row& row, bool past_caches) {
#if defined(__AVX512BW__)
    __m256i words = _mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)row.part[0], 16));
    __asm__("" : "+x"(words));
    put_vector(to, words, past_caches);
#elif defined(__AVX2__)
    const __m256i low = _mm256_srli_epi32((__m256i)row.part[0], 16), high = _mm256_srli_epi32((__m256i)row.part[1], 16);
    put_vector(to, _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8), past_caches);
#elif defined(__SSE2__)
    for (int i = 0; i < 2; ++i) {
      const __m128i low = _mm_srai_epi32((__m128i)row.part[2 * i], 16), high = _mm_srai_epi32((__m128i)row.part[2 * i + 1], 16);
      put_vector(to + 16 * i, _mm_packs_epi32(low, high), past_caches);
    }
#else
    store(to, __builtin_convertvector(load<u32x16>(&row) >> 16, u16x16));
    (void)past_caches;
#endif
  }
  static TESSERA_INLINE std::uint32_t bits1(const std::byte* from) { return static_cast<std::uint32_t>(load<std::uint16_t>(from)) << 16; }
  static TESSERA_INLINE void put1(std::byte* to, std::uint32_t v) { store(to, static_cast<std::uint16_t>(v >> 16)); }
};

// One register of each of four rows: the maximum within each 128-bit lane, rows side by side.
TESSERA_INLINE u32v max_of_four(u32v a, u32v b, u32v c, u32v d) {
#if defined(__AVX512BW__)
  const auto low32 = [](u32v x, u32v y) { return (u32v)_mm512_unpacklo_epi32((__m512i)x, (__m512i)y); };
  const auto high32 = [](u32v x, u32v y) { return (u32v)_mm512_unpackhi_epi32((__m512i)x, (__m512i)y); };
  const auto low64 = [](u32v x, u32v y) { return (u32v)_mm512_unpacklo_epi64((__m512i)x, (__m512i)y); };
  const auto high64 = [](u32v x, u32v y) { return (u32v)_mm512_unpackhi_epi64((__m512i)x, (__m512i)y); };
#elif defined(__AVX2__)
  const auto low32 = [](u32v x, u32v y) { return (u32v)_mm256_unpacklo_epi32((__m256i)x, (__m256i)y); };
  const auto high32 = [](u32v x, u32v y) { return (u32v)_mm256_unpackhi_epi32((__m256i)x, (__m256i)y); };
  const auto low64 = [](u32v x, u32v y) { return (u32v)_mm256_unpacklo_epi64((__m256i)x, (__m256i)y); };
  const auto high64 = [](u32v x, u32v y) { return (u32v)_mm256_unpackhi_epi64((__m256i)x, (__m256i)y); };
#else
  const auto low32 = [](u32v x, u32v y) { return __builtin_shuffle(x, y, u32v{0, 4, 1, 5}); };
  const auto high32 = [](u32v x, u32v y) { return __builtin_shuffle(x, y, u32v{2, 6, 3, 7}); };
  const auto low64 = [](u32v x, u32v y) { return __builtin_shuffle(x, y, u32v{0, 1, 4, 5}); };
  const auto high64 = [](u32v x, u32v y) { return __builtin_shuffle(x, y, u32v{2, 3, 6, 7}); };
#endif
  const u32v ab = max16(low32(a, b), high32(a, b)), cd = max16(low32(c, d), high32(c, d));
  return max16(low64(ab, cd), high64(ab, cd));
}

// Lane i of the result: the largest upper half among the lanes of rows[i] (its lower half means nothing).
TESSERA_INLINE Row max_of_rows(const Row (&rows)[16]) {
  u32v quads[4];
  Row result;
#if defined(__AVX512BW__)
  for (int q = 0; q < 4; ++q)
    quads[q] = max_of_four(rows[4 * q].part[0], rows[4 * q + 1].part[0], rows[4 * q + 2].part[0], rows[4 * q + 3].part[0]);
  const auto pair = [](u32v x, u32v y) {
    return max16((u32v)_mm512_shuffle_i32x4((__m512i)x, (__m512i)y, 0x44), (u32v)_mm512_shuffle_i32x4((__m512i)x, (__m512i)y, 0xee));
  };
  const u32v first = pair(quads[0], quads[1]), second = pair(quads[2], quads[3]);
  result.part[0] = max16((u32v)_mm512_shuffle_i32x4((__m512i)first, (__m512i)second, 0x88),
                         (u32v)_mm512_shuffle_i32x4((__m512i)first, (__m512i)second, 0xdd));
#elif defined(__AVX2__)
  const auto fold = [](const Row& row) { return max16(row.part[0], row.part[1]); };
  for (int q = 0; q < 4; ++q)
    quads[q] = max_of_four(fold(rows[4 * q]), fold(rows[4 * q + 1]), fold(rows[4 * q + 2]), fold(rows[4 * q + 3]));
  for (int h = 0; h < 2; ++h) {
    const __m256i x = (__m256i)quads[2 * h], y = (__m256i)quads[2 * h + 1];
    result.part[h] = max16((u32v)_mm256_permute2x128_si256(x, y, 0x20), (u32v)_mm256_permute2x128_si256(x, y, 0x31));
  }
#else
  const auto fold = [](const Row& row) { return max16(max16(row.part[0], row.part[1]), max16(row.part[2], row.part[3])); };
  for (int q = 0; q < 4; ++q)
    result.part[q] = max_of_four(fold(rows[4 * q]), fold(rows[4 * q + 1]), fold(rows[4 * q + 2]), fold(rows[4 * q + 3]));
  (void)quads;
#endif
  return result;
}
