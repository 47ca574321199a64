#include "kernels/blocks.hpp"

#include <cstring>
#include <type_traits>
#if TESSERA_X86
#include <immintrin.h>
#endif

namespace {

#include "kernels/vector16.hpp"

using tessera::BlockFormat;
using tessera::FloatKind;
using tessera::TileGrid;

// Work goes sixteen blocks at a time: a face, or a stretch of a row. The shared exponents of sixteen blocks make one vector.
constexpr std::size_t BLOCK = 16;
constexpr int FRACTION = 23;
constexpr std::uint32_t MAGNITUDE = 0x7fffffffu, INFINITE = 0x7f800000u;
// Between these shared exponents (and at 0) plain float arithmetic does the shifting; elsewhere, the definition bit by bit.
constexpr std::uint32_t EASY_LOW = 24, EASY_HIGH = 254;

template <int KEEP, bool DEVICE>
TESSERA_INLINE u32v round_shifted(u32v mantissa) {
  if constexpr (DEVICE) {
    constexpr int drop = FRACTION + 1 - 7;
    u32v code = (mantissa + (1u << (drop - 1))) >> drop;
    code -= code >> 7;  // 128 saturates to 127
    return code >> (7 - KEEP);
  } else {
    constexpr int drop = FRACTION + 1 - KEEP;
    const u32v code = (mantissa + ((1u << (drop - 1)) - 1u) + ((mantissa >> drop) & 1u)) >> drop;
    return code - (code >> KEEP);  // only limit + 1 can exceed the limit
  }
}

template <int KEEP, bool DEVICE>
TESSERA_INLINE u32v magnitude_of(u32v bits) {
  u32v magnitude = bits & MAGNITUDE;
  if constexpr (DEVICE && KEEP < 7) {
    constexpr std::uint32_t unit = 1u << (FRACTION + 1 - 7);
    const u32v rounded = (magnitude + unit / 2) & (0u - unit);
    magnitude = (i32v)magnitude < (std::int32_t)INFINITE ? rounded : magnitude;
  }
  return magnitude;
}

struct Exponents {
  alignas(64) std::uint32_t of[16];
};

TESSERA_INLINE bool outside(const Row& exponents, std::uint32_t low, std::uint32_t high) {
  i32v any{};
  for (int i = 0; i < REGISTERS; ++i) {
    const i32v e = (i32v)exponents.part[i];
    any |= ((e != 0) & (e < (std::int32_t)low)) | (e > (std::int32_t)high);
  }
  std::uint64_t words[WIDTH / 8], sum = 0;
  std::memcpy(words, &any, sizeof any);
  for (std::uint64_t word : words) sum |= word;
  return sum != 0;
}

// Blocks of tiny numbers, and blocks with an infinity or NaN.
template <int KEEP, bool DEVICE>
__attribute__((noinline)) void encode_hard(Row& row, std::uint32_t shared) {
  std::uint32_t bits[BLOCK];
  std::memcpy(bits, &row, sizeof bits);
  for (std::uint32_t& word : bits) {
    const std::uint32_t exponent = word >> FRACTION, shift = shared - exponent < 31 ? shared - exponent : 31;
    word = exponent == 0 ? 0 : ((word & 0x7fffffu) | 0x800000u) >> shift;
  }
  std::memcpy(&row, bits, sizeof bits);
  row = each([&](int i) { return round_shifted<KEEP, DEVICE>(row.part[i]); });
}

// What a mantissa scaled to 24 bits becomes, the hard way avoided: cut to an integer, then rounded.
template <int KEEP, bool DEVICE>
TESSERA_INLINE u32v round_scaled(f32v scaled) {
#if defined(__AVX2__)
  if constexpr (!DEVICE) {  // in floating point: the processor's own rounding is to nearest even
    constexpr float unit = 1.0f / static_cast<float>(1u << (FRACTION + 1 - KEEP));
#if defined(__AVX512BW__)
    const __m512 whole = _mm512_roundscale_ps((__m512)scaled, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(whole, _mm512_set1_ps(unit)));
    return (u32v)_mm512_min_epi32(code, _mm512_set1_epi32((1 << KEEP) - 1));
#else
    const __m256 whole = _mm256_round_ps((__m256)scaled, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m256i code = _mm256_cvtps_epi32(_mm256_mul_ps(whole, _mm256_set1_ps(unit)));
    return (u32v)_mm256_min_epi32(code, _mm256_set1_epi32((1 << KEEP) - 1));
#endif
  }
#endif
  return round_shifted<KEEP, DEVICE>((u32v)__builtin_convertvector(scaled, i32v));
}

// Sixteen blocks on their way to codes: first their shared exponents, from one look at all of them, then each block by itself
// from a second look (its lines are still in the L1 cache; keeping them would take more registers than there are).
template <int KEEP, bool DEVICE>
struct Encoder {
  Row exponents;
  Exponents scale, plain;
  bool hard;

  // `look(i)` gives the float32 bits of block i.
  template <class Look>
  TESSERA_INLINE explicit Encoder(Look look) {
    Row magnitudes[16];
    for (std::size_t i = 0; i < 16; ++i) {
      const Row bits = look(i);
      magnitudes[i] = each([&](int p) { return magnitude_of<KEEP, DEVICE>(bits.part[p]); });
    }
    const Row largest = max_of_rows(magnitudes);
    exponents = each([&](int p) { return largest.part[p] >> FRACTION; });
    hard = outside(exponents, EASY_LOW, EASY_HIGH);
    // Scaled so that the unit in the last place of the largest exponent is 1, cutting to an integer is the truncating shift.
    store_row(scale.of, each([&](int p) { return (127u + 127u + FRACTION - exponents.part[p]) << FRACTION; }));
    if (__builtin_expect(hard, 0)) store_row(plain.of, exponents);
    __asm__ volatile("" ::: "memory");  // look again
  }

  // The codes of block i (sign in bit KEEP).
  TESSERA_INLINE Row codes(std::size_t i, const Row& bits) const {
    Row codes = each([&](int p) { return magnitude_of<KEEP, DEVICE>(bits.part[p]); });
    if (__builtin_expect(hard, 0)) {
      encode_hard<KEEP, DEVICE>(codes, plain.of[i]);
    } else {
      float factor;
      std::memcpy(&factor, &scale.of[i], 4);
      codes = each([&](int p) { return round_scaled<KEEP, DEVICE>((f32v)codes.part[p] * factor); });
    }
    return each([&](int p) {
      const u32v sign = (bits.part[p] >> 31) << KEEP;
      return codes.part[p] == 0u ? u32v{} : codes.part[p] | sign;
    });
  }
};

// What turns magnitudes into numbers, for sixteen blocks.
template <int KEEP>
struct Scales {
  Exponents factor, plain;
  bool hard;

  TESSERA_INLINE explicit Scales(const Row& exponents) : hard(outside(exponents, KEEP, EASY_HIGH)) {
    store_row(factor.of, each([&](int p) {
      const u32v e = exponents.part[p];
      return e == 0u ? u32v{} : (e - (KEEP - 1)) << FRACTION;  // of a zero block, zero
    }));
    if (__builtin_expect(hard, 0)) store_row(plain.of, exponents);
  }

  // The float32 bits of the codes of block i.
  TESSERA_INLINE Row decode(const Row& codes, std::size_t i) const {
    float unit;
    std::memcpy(&unit, &factor.of[i], 4);
    return each([&](int p) {
      const u32v sign = (codes.part[p] >> KEEP) << 31;
      const f32v normal = __builtin_convertvector((i32v)(codes.part[p] & ((1u << KEEP) - 1)), f32v);
      if (__builtin_expect(hard, 0)) {
        const i32v bits = (i32v)normal, exponent = (bits >> FRACTION) + ((std::int32_t)plain.of[i] - 127 - (KEEP - 1));
        const i32v alive = (bits != 0) & (exponent > 0);
        return (u32v)(((bits & 0x7fffff) | (exponent << FRACTION)) & alive) | sign;
      }
      return (u32v)(normal * unit) | sign;
    });
  }
};

template <int KEEP>
TESSERA_INLINE void put_codes(std::byte* to, const Row& codes, bool past_caches) {
  const u8x16 bytes = narrow8(codes);
  if constexpr (KEEP == 7) {
    put_vector(to, bytes, past_caches);
  } else if constexpr (KEEP == 3) {
    const u16x8 pairs = (u16x8)bytes;
    const u8x16 merged = (u8x16)(pairs | (pairs >> 4));
    const u8x16 packed = even8(merged);
    std::memcpy(to, &packed, 8);
  } else {
    std::uint64_t words[2];
    std::memcpy(words, &bytes, 16);
    for (std::size_t w = 0; w < 2; ++w) {
      std::uint64_t v = words[w];
      v = (v | (v >> 6)) & 0x000f000f000f000full;
      v = (v | (v >> 12)) & 0x000000ff000000ffull;
      store(to + 2 * w, static_cast<std::uint16_t>(v | (v >> 24)));
    }
  }
}

template <int KEEP>
TESSERA_INLINE Row get_codes(const std::byte* from) {
  if constexpr (KEEP == 7) {
    return widen8(load<u8x16>(from));
  } else if constexpr (KEEP == 3) {
    const u8x16 pairs = load8(from), low = pairs & 15, high = pairs >> 4;
    return widen8(interleave8(low, high));
  } else {
    const std::uint32_t word = load<std::uint32_t>(from);
    std::uint8_t codes[16];
    for (int i = 0; i < 16; ++i) codes[i] = static_cast<std::uint8_t>(word >> (2 * i) & 3u);
    return widen8(load<u8x16>(codes));
  }
}

// Where the blocks of a row of tiles lie.
struct TileRow {
  const TileGrid& g;
  std::size_t top, height;  // rows inside the matrix
  std::size_t faces_down, faces_across, exponents, tile_bytes, row_bytes, blocks;

  TileRow(const TileGrid& grid, BlockFormat format, std::size_t index) : g(grid) {
    top = index % g.tile_rows() * g.tile_height;
    height = g.rows - top < g.tile_height ? g.rows - top : g.tile_height;
    faces_down = g.tile_height / g.face_height;
    faces_across = g.tile_width / BLOCK;
    exponents = format.exponent_bytes(g.tile_elements());
    tile_bytes = format.tile_bytes(g.tile_elements());
    row_bytes = BLOCK * static_cast<std::size_t>(format.bits()) / 8;
    blocks = g.tile_elements() / BLOCK;
  }
  // The place of face (down, across) among the blocks of its tile.
  std::size_t first_block(std::size_t down, std::size_t across) const {
    return (g.swap_faces ? across * faces_down + down : down * faces_across + across) * g.face_height;
  }
};

// The first `count` of sixteen bytes.
TESSERA_INLINE u8x16 load_front(const std::byte* from, std::size_t count) {
  if (count == 16) return load<u8x16>(from);
  u8x16 bytes{};
  std::memcpy(&bytes, from, count);
  return bytes;
}

// How far ahead of the face in hand its rows are fetched: they lie too far apart for the processor to guess.
constexpr std::size_t AHEAD = 512;

#if defined(__AVX512BW__)
// Two faces side by side of bfloat16: one register a row. Eight bits of mantissa leave room to shift in sixteen, so all
// of the definition (infinities and tiny numbers too) is done in sixteen-bit lanes, twice as many at a time.
template <int KEEP>
TESSERA_INLINE void pack_two_faces(const TileRow& t, std::byte* tile, std::size_t down, const std::byte* from, std::size_t row_size,
                                   bool past_caches) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  __m512i quads[4], octets[2];
  for (std::size_t q = 0; q < 4; ++q) {
    __m512i row[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const std::byte* at = from + (4 * q + i) * row_size;
      __builtin_prefetch(at + AHEAD);
      row[i] = _mm512_and_si512(load<__m512i>(at), magnitude);
    }
    const __m512i ab = _mm512_max_epi16(_mm512_unpacklo_epi16(row[0], row[1]), _mm512_unpackhi_epi16(row[0], row[1]));
    const __m512i cd = _mm512_max_epi16(_mm512_unpacklo_epi16(row[2], row[3]), _mm512_unpackhi_epi16(row[2], row[3]));
    quads[q] = _mm512_max_epi16(_mm512_unpacklo_epi32(ab, cd), _mm512_unpackhi_epi32(ab, cd));
  }
  for (int o = 0; o < 2; ++o) {
    const __m512i x = quads[2 * o], y = quads[2 * o + 1];
    octets[o] = _mm512_max_epi16(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
  }
  const __m512i mixed = _mm512_max_epi16(_mm512_shuffle_i64x2(octets[0], octets[1], 0x88), _mm512_shuffle_i64x2(octets[0], octets[1], 0xdd));
  // Lanes 0..15: the exponents of the rows of the first face; 16..31: of the second.
  const __m512i shared = _mm512_srli_epi16(_mm512_shuffle_i64x2(mixed, mixed, 0xd8), 7);
  const std::size_t block[2] = {t.first_block(down, 0), t.first_block(down, 1)};
  const __m256i stored = _mm512_cvtepi16_epi8(shared);
  store(tile + block[0], _mm256_castsi256_si128(stored));
  store(tile + block[1], _mm256_extracti128_si256(stored, 1));
  std::byte* to[2] = {tile + t.exponents + block[0] * t.row_bytes, tile + t.exponents + block[1] * t.row_bytes};
  __m512i place = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(16), 1);
  for (std::size_t i = 0; i < 16; ++i, from += row_size) {
    const __m512i x = load<__m512i>(from);
    const __m512i shift = _mm512_sub_epi16(_mm512_permutexvar_epi16(place, shared), _mm512_srli_epi16(_mm512_and_si512(x, magnitude), 7));
    place = _mm512_add_epi16(place, _mm512_set1_epi16(1));
    const __m512i fraction = _mm512_and_si512(_mm512_slli_epi16(x, 7), _mm512_set1_epi16(0x3f80));
    const __mmask32 normal = _mm512_test_epi16_mask(x, _mm512_set1_epi16(0x7f80));
    const __m512i m = _mm512_maskz_srlv_epi16(normal, _mm512_or_si512(fraction, _mm512_set1_epi16(0x4000)), shift);
    constexpr int drop = 15 - KEEP;
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(m, drop), _mm512_set1_epi16(1));
    const __m512i up = _mm512_add_epi16(_mm512_add_epi16(m, _mm512_set1_epi16((1 << (drop - 1)) - 1)), odd);
    const __m512i code = _mm512_min_epi16(_mm512_srli_epi16(up, drop), _mm512_set1_epi16((1 << KEEP) - 1));
    const __m512i sign = _mm512_and_si512(_mm512_srli_epi16(x, 15 - KEEP), _mm512_set1_epi16(1 << KEEP));
    const __m512i signed_code = _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(code, code), _mm512_or_si512(code, sign));
    __m256i bytes = _mm512_cvtepi16_epi8(signed_code);
    __asm__("" : "+x"(bytes));
    if constexpr (KEEP == 7) {
      put_vector(to[0], _mm256_castsi256_si128(bytes), past_caches);
      put_vector(to[1], _mm256_extracti128_si256(bytes, 1), past_caches);
    } else {
      const __m256i merged = _mm256_and_si256(_mm256_or_si256(bytes, _mm256_srli_epi16(bytes, 4)), _mm256_set1_epi16(0xff));
      const __m256i packed = _mm256_packus_epi16(merged, merged);
      store(to[0], _mm256_extract_epi64(packed, 0));
      store(to[1], _mm256_extract_epi64(packed, 2));
    }
    to[0] += t.row_bytes, to[1] += t.row_bytes;
  }
}
#endif

template <int KEEP, bool DEVICE, class Source>
void pack_rows(const TileGrid& g, BlockFormat format, const std::byte* values, std::byte* image, float pad, std::size_t begin,
               std::size_t end) {
  std::uint32_t pad_bits;
  std::memcpy(&pad_bits, &pad, 4);
  const std::size_t row_size = g.columns * Source::size;
  // Only codes of a byte come in pieces large enough; a face's rows lie end to end, so whole lines are written.
  const bool past_caches = KEEP == 7 && g.face_height == 16 &&
                           g.matrices * g.tile_rows() * g.tile_columns() * format.tile_bytes(g.tile_elements()) > tessera::STREAM_BYTES &&
                           streamable(image, 64);
  for (std::size_t index = begin; index < end; ++index) {
    const TileRow t(g, format, index);
    const std::byte* source = values + (index / g.tile_rows() * g.rows + t.top) * row_size;
    std::byte* tile = image + index * g.tile_columns() * t.tile_bytes;
    for (std::size_t left = 0; left < g.tile_columns() * g.tile_width; left += g.tile_width, tile += t.tile_bytes) {
      if (t.blocks < t.exponents) std::memset(tile + t.blocks, 0, t.exponents - t.blocks);
#if defined(__AVX512BW__)
      if constexpr (!DEVICE && KEEP > 1 && Source::size == 2) {
        if (g.face_height == 16 && t.faces_across == 2 && !g.swap_elements && t.height == g.tile_height && left + 32 <= g.columns) {
          for (std::size_t down = 0; down < t.faces_down; ++down)
            pack_two_faces<KEEP>(t, tile, down, source + down * 16 * row_size + left * Source::size, row_size, past_caches);
          continue;
        }
      }
#endif
      for (std::size_t face = 0; face < t.faces_down * t.faces_across; ++face) {
        const std::size_t down = face / t.faces_across, across = face % t.faces_across;  // two faces share a cache line of bfloat16
        const std::size_t first = down * g.face_height, column = left + across * BLOCK, block = t.first_block(down, across);
        if (__builtin_expect(g.face_height == 16 && first + 16 <= t.height && column + BLOCK <= g.columns && !g.swap_elements, 1)) {
          const std::byte* from = source + first * row_size + column * Source::size;
          const auto look = [&](std::size_t i) __attribute__((always_inline)) { return Source::bits(from + i * row_size); };
          for (std::size_t i = 0; i < 16; ++i) __builtin_prefetch(from + i * row_size + AHEAD);
          const Encoder<KEEP, DEVICE> encoder(look);
          store(tile + block, narrow8(encoder.exponents));
          std::byte* codes = tile + t.exponents + block * t.row_bytes;
          for (std::size_t i = 0; i < 16; ++i) put_codes<KEEP>(codes + i * t.row_bytes, encoder.codes(i, look(i)), past_caches);
          continue;
        }
        std::uint32_t gathered[16][16] = {};
        for (std::size_t r = 0; r < g.face_height; ++r) {
          for (std::size_t c = 0; c < BLOCK; ++c) {
            const bool inside = first + r < t.height && column + c < g.columns;
            const std::uint32_t bits = inside ? Source::bits1(source + (first + r) * row_size + (column + c) * Source::size) : pad_bits;
            gathered[g.swap_elements ? c : r][g.swap_elements ? r : c] = bits;
          }
        }
        const auto look = [&](std::size_t i) { return load_row(gathered[i]); };
        const Encoder<KEEP, DEVICE> encoder(look);
        std::uint8_t shared[16];
        store(shared, narrow8(encoder.exponents));
        for (std::size_t i = 0; i < g.face_height; ++i) {
          tile[block + i] = static_cast<std::byte>(shared[i]);
          put_codes<KEEP>(tile + t.exponents + (block + i) * t.row_bytes, encoder.codes(i, look(i)), false);
        }
      }
    }
  }
  if (past_caches) end_streaming();
}

// Sixteen rows of a tile, all its faces side by side: whole cache lines are written at once.
template <int KEEP, class Target>
TESSERA_INLINE void unpack_faces(const TileRow& t, const std::byte* tile, std::size_t down, std::byte* to, std::size_t row_size,
                                 bool past_caches) {
  const std::size_t block[2] = {t.first_block(down, 0), t.first_block(down, t.faces_across - 1)};
  const Scales<KEEP> scales[2] = {Scales<KEEP>(widen8(load<u8x16>(tile + block[0]))), Scales<KEEP>(widen8(load<u8x16>(tile + block[1])))};
  const std::byte* codes = tile + t.exponents;
  for (std::size_t i = 0; i < 16; ++i, to += row_size) {
    for (std::size_t across = 0; across < t.faces_across; ++across) {
      const Row row = scales[across].decode(get_codes<KEEP>(codes + (block[across] + i) * t.row_bytes), i);
      Target::put(to + across * BLOCK * Target::size, row, past_caches);
    }
    if (!past_caches) __builtin_prefetch(to + AHEAD, 1);
  }
}

template <int KEEP, class Target>
void unpack_rows(const TileGrid& g, BlockFormat format, const std::byte* image, std::byte* values, std::size_t begin, std::size_t end) {
  const std::size_t row_size = g.columns * Target::size;
  const bool whole = g.face_height == 16 && !g.swap_elements;
  const bool past_caches = g.matrices * g.rows * row_size > tessera::STREAM_BYTES && streamable(values, row_size) && g.tile_width == 32;
  for (std::size_t index = begin; index < end; ++index) {
    const TileRow t(g, format, index);
    std::byte* target = values + (index / g.tile_rows() * g.rows + t.top) * row_size;
    const std::byte* tile = image + index * g.tile_columns() * t.tile_bytes;
    for (std::size_t left = 0; left < g.tile_columns() * g.tile_width; left += g.tile_width, tile += t.tile_bytes) {
      if (whole && t.height == g.tile_height && left + g.tile_width <= g.columns) {
        for (std::size_t down = 0; down < t.faces_down; ++down)
          unpack_faces<KEEP, Target>(t, tile, down, target + down * 16 * row_size + left * Target::size, row_size, past_caches);
        continue;
      }
      for (std::size_t face = 0; face < t.faces_down * t.faces_across; ++face) {
        const std::size_t down = face / t.faces_across, across = face % t.faces_across;
        const std::size_t first = down * g.face_height, column = left + across * BLOCK, block = t.first_block(down, across);
        if (first >= t.height || column >= g.columns) continue;
        const u8x16 shared = load_front(tile + block, g.face_height);
        const Scales<KEEP> scales(widen8(shared));
        const std::byte* codes = tile + t.exponents + block * t.row_bytes;
        std::uint32_t bits[16][16];
        for (std::size_t i = 0; i < g.face_height; ++i)
          store_row(bits[i], scales.decode(get_codes<KEEP>(codes + i * t.row_bytes), i));
        for (std::size_t r = 0; r < g.face_height && first + r < t.height; ++r)
          for (std::size_t c = 0; c < BLOCK && column + c < g.columns; ++c)
            Target::put1(target + (first + r) * row_size + (column + c) * Target::size, g.swap_elements ? bits[c][r] : bits[r][c]);
      }
    }
  }
  if (past_caches) end_streaming();
}

// `count` elements that lie end to end, in blocks of sixteen; the last block may be short.
template <int KEEP, bool DEVICE, class Source, class Target>
void quantize_run(const std::byte* from, std::byte* to, std::size_t count, bool past_caches) {
  constexpr std::size_t CHUNK = BLOCK * 16;
  std::size_t done = 0;
  for (; done + CHUNK <= count; done += CHUNK) {
    const std::byte* source = from + done * Source::size;
    std::byte* target = to + done * Target::size;
    const auto look = [&](std::size_t i) __attribute__((always_inline)) { return Source::bits(source + i * BLOCK * Source::size); };
    const Encoder<KEEP, DEVICE> encoder(look);
    const Scales<KEEP> scales(encoder.exponents);
    for (std::size_t i = 0; i < 16; ++i)
      Target::put(target + i * BLOCK * Target::size, scales.decode(encoder.codes(i, look(i)), i), past_caches);
  }
  if (past_caches) end_streaming();
  if (done == count) return;
  std::uint32_t bits[CHUNK] = {};
  for (std::size_t i = 0; done + i < count; ++i) bits[i] = Source::bits1(from + (done + i) * Source::size);
  const auto look = [&](std::size_t i) { return load_row(bits + i * BLOCK); };
  const Encoder<KEEP, DEVICE> encoder(look);
  const Scales<KEEP> scales(encoder.exponents);
  for (std::size_t i = 0; i < 16; ++i) store_row(bits + i * BLOCK, scales.decode(encoder.codes(i, look(i)), i));
  for (std::size_t i = 0; done + i < count; ++i) Target::put1(to + (done + i) * Target::size, bits[i]);
}

template <int KEEP, bool DEVICE, class Source, class Target>
void quantize_rows(const std::byte* from, std::byte* to, std::size_t columns, std::size_t begin, std::size_t end, bool past_caches) {
  if (columns % BLOCK == 0) {  // full blocks lie end to end: the rows are one long row
    return quantize_run<KEEP, DEVICE, Source, Target>(from + begin * columns * Source::size, to + begin * columns * Target::size,
                                                      (end - begin) * columns, past_caches && streamable(to, columns * Target::size));
  }
  for (std::size_t row = begin; row < end; ++row)
    quantize_run<KEEP, DEVICE, Source, Target>(from + row * columns * Source::size, to + row * columns * Target::size, columns, false);
}

// From run-time arguments to the template that was made for them.
template <class Then>
TESSERA_INLINE void with_rounding(BlockFormat f, Then then) {
  using std::integral_constant;
  const auto keep = [&](auto bits) { return f.device_rounding ? then(bits, integral_constant<bool, true>{}) : then(bits, integral_constant<bool, false>{}); };
  switch (f.magnitude_bits) {
    case 7: return keep(integral_constant<int, 7>{});
    case 3: return keep(integral_constant<int, 3>{});
    case 1: return keep(integral_constant<int, 1>{});
  }
}

template <class Then>
TESSERA_INLINE void with_kind(FloatKind kind, Then then) {
  return kind == FloatKind::float32 ? then(Float32{}) : then(Bfloat16{});
}

void pack(const TileGrid& g, BlockFormat format, FloatKind kind, const std::byte* values, std::byte* image, float pad, std::size_t begin,
          std::size_t end) {
  with_rounding(format, [&](auto keep, auto device) {
    with_kind(kind, [&](auto source) { pack_rows<keep.value, device.value, decltype(source)>(g, format, values, image, pad, begin, end); });
  });
}

void unpack(const TileGrid& g, BlockFormat format, FloatKind kind, const std::byte* image, std::byte* values, std::size_t begin,
            std::size_t end) {
  format.device_rounding = false;
  with_rounding(format, [&](auto keep, auto device) {
    if constexpr (!device.value)
      with_kind(kind, [&](auto target) { unpack_rows<keep.value, decltype(target)>(g, format, image, values, begin, end); });
  });
}

void quantize(BlockFormat format, FloatKind from_kind, const std::byte* from, FloatKind to_kind, std::byte* to, std::size_t columns,
              std::size_t begin, std::size_t end, bool past_caches) {
  with_rounding(format, [&](auto keep, auto device) {
    with_kind(from_kind, [&](auto source) {
      with_kind(to_kind, [&](auto target) {
        quantize_rows<keep.value, device.value, decltype(source), decltype(target)>(from, to, columns, begin, end, past_caches);
      });
    });
  });
}

}  // namespace

TESSERA_DEFINE_KERNELS(BlockKernels){pack, unpack, quantize};
