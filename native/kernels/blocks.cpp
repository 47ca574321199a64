#include "kernels/blocks.hpp"

#include <cstring>
#include <type_traits>

namespace {

#include "kernels/vector16.hpp"

using tessera::BlockFormat;
using tessera::FloatKind;
using tessera::TileGrid;

constexpr std::size_t BLOCK = 16;
constexpr int FRACTION = 23;
constexpr std::uint32_t MAGNITUDE = 0x7fffffffu, INFINITE = 0x7f800000u;
// Between these shared exponents plain float arithmetic does the shifting; outside, the definition bit by bit.
constexpr std::int32_t EASY_LOW = 24, EASY_HIGH = 254;

template <int KEEP, bool DEVICE>
TESSERA_INLINE u32x16 round_shifted(u32x16 mantissa) {
  constexpr std::uint32_t limit = (1u << KEEP) - 1;
  u32x16 code;
  if constexpr (DEVICE) {
    constexpr int drop = FRACTION + 1 - 7;
    code = (mantissa + (1u << (drop - 1))) >> drop;
    code = code > 127u ? u32x16{} + 127u : code;
    return code >> (7 - KEEP);
  } else {
    constexpr int drop = FRACTION + 1 - KEEP;
    code = (mantissa + ((1u << (drop - 1)) - 1u) + ((mantissa >> drop) & 1u)) >> drop;
    return code > limit ? u32x16{} + limit : code;
  }
}

template <int KEEP, bool DEVICE>
struct Encoded {
  std::uint8_t exponent;
  u32x16 codes;  // sign in bit KEEP
};

// Blocks of tiny numbers, and blocks with an infinity or NaN.
template <int KEEP, bool DEVICE>
__attribute__((noinline)) void encode_hard(const u32x16& magnitude, std::int32_t shared, u32x16& codes) {
  u32x16 shifted{};
  for (std::size_t i = 0; i < BLOCK; ++i) {
    const std::int32_t exponent = static_cast<std::int32_t>(magnitude[i] >> FRACTION);
    const std::int32_t shift = shared - exponent < 31 ? shared - exponent : 31;
    shifted[i] = exponent == 0 ? 0 : ((magnitude[i] & 0x7fffffu) | 0x800000u) >> shift;
  }
  codes = round_shifted<KEEP, DEVICE>(shifted);
}

template <int KEEP, bool DEVICE>
TESSERA_INLINE Encoded<KEEP, DEVICE> encode(u32x16 bits) {
  u32x16 magnitude = bits & MAGNITUDE;
  if constexpr (DEVICE && KEEP < 7) {
    constexpr std::uint32_t unit = 1u << (FRACTION + 1 - 7);
    const u32x16 rounded = (magnitude + unit / 2) & (0u - unit);
    magnitude = magnitude < INFINITE ? rounded : magnitude;
  }
  const std::int32_t shared = max_lane(as<i32x16>(magnitude)) >> FRACTION;
  Encoded<KEEP, DEVICE> result;
  result.exponent = static_cast<std::uint8_t>(shared);
  u32x16 codes;
  if (__builtin_expect(shared >= EASY_LOW && shared <= EASY_HIGH, 1)) {
    // Scaled so that the largest exponent's unit in the last place is 1: cutting to an integer is the truncating shift.
    const std::uint32_t scale_bits = static_cast<std::uint32_t>(127 + 127 + FRACTION - shared) << FRACTION;
    float scale;
    std::memcpy(&scale, &scale_bits, 4);
    const i32x16 mantissa = __builtin_convertvector(as<f32x16>(magnitude) * scale, i32x16);
    codes = round_shifted<KEEP, DEVICE>(as<u32x16>(mantissa));
  } else if (shared == 0) {
    codes = u32x16{};
  } else {
    encode_hard<KEEP, DEVICE>(magnitude, shared, codes);
  }
  const u32x16 sign = (bits >> 31) << KEEP;
  result.codes = codes == 0u ? u32x16{} : codes | sign;
  return result;
}

// The float32 bits of codes under a shared exponent.
template <int KEEP>
TESSERA_INLINE u32x16 decode(u32x16 codes, std::int32_t shared) {
  const u32x16 sign = (codes >> KEEP) << 31;
  const i32x16 whole = as<i32x16>(codes & ((1u << KEEP) - 1));
  const f32x16 normal = __builtin_convertvector(whole, f32x16);
  const std::int32_t exponent = shared - (KEEP - 1);  // of the unit, biased
  if (__builtin_expect(exponent >= 1 && shared < 255, 1)) {
    const std::uint32_t scale_bits = static_cast<std::uint32_t>(exponent) << FRACTION;
    float scale;
    std::memcpy(&scale, &scale_bits, 4);
    return as<u32x16>(normal * scale) | sign;
  }
  const i32x16 bits = as<i32x16>(normal);
  const i32x16 shifted = (bits >> FRACTION) + (exponent - 127);
  const i32x16 value = (bits & 0x7fffff) | (shifted << FRACTION);
  const i32x16 alive = (whole != 0) & (shifted > 0);
  return as<u32x16>(value & alive) | sign;
}

template <int KEEP>
TESSERA_INLINE void put_codes(std::byte* to, u32x16 codes) {
  const u8x16 bytes = __builtin_convertvector(codes, u8x16);
  if constexpr (KEEP == 7) {
    store(to, bytes);
  } else {
    std::uint64_t words[2];
    std::memcpy(words, &bytes, 16);
    constexpr int bits = KEEP + 1;
    for (std::size_t w = 0; w < 2; ++w) {
      std::uint64_t v = words[w];
      if constexpr (bits == 4) {
        v = (v | (v >> 4)) & 0x00ff00ff00ff00ffull;
        v = (v | (v >> 8)) & 0x0000ffff0000ffffull;
        const std::uint32_t packed = static_cast<std::uint32_t>(v | (v >> 16));
        std::memcpy(to + 4 * w, &packed, 4);
      } else {
        v = (v | (v >> 6)) & 0x000f000f000f000full;
        v = (v | (v >> 12)) & 0x000000ff000000ffull;
        const std::uint16_t packed = static_cast<std::uint16_t>(v | (v >> 24));
        std::memcpy(to + 2 * w, &packed, 2);
      }
    }
  }
}

template <int KEEP>
TESSERA_INLINE u32x16 get_codes(const std::byte* from) {
  if constexpr (KEEP == 7) {
    return __builtin_convertvector(load<u8x16>(from), u32x16);
  } else if constexpr (KEEP == 3) {
    constexpr u32x16 shifts = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28};
    std::uint32_t w[2];
    std::memcpy(w, from, 8);
    const u32x16 words = {w[0], w[0], w[0], w[0], w[0], w[0], w[0], w[0], w[1], w[1], w[1], w[1], w[1], w[1], w[1], w[1]};
    return (words >> shifts) & 15u;
  } else {
    constexpr u32x16 shifts = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    std::uint32_t w;
    std::memcpy(&w, from, 4);
    return ((u32x16{} + w) >> shifts) & 3u;
  }
}

// Where the blocks of a tile row lie. A stretch of tiles is walked row by row, so that the row-major side is read in runs
// and the tiles stay in the L1 cache.
struct TileRow {
  static constexpr std::size_t STRETCH = 256;  // columns
  std::size_t top, height;                     // rows inside the matrix
  std::size_t faces_down, faces_across, exponents, tile_bytes, row_bytes, padded_columns;
  const TileGrid& g;

  TileRow(const TileGrid& grid, BlockFormat format, std::size_t index) : g(grid) {
    top = index % g.tile_rows() * g.tile_height;
    height = g.rows - top < g.tile_height ? g.rows - top : g.tile_height;
    faces_down = g.tile_height / g.face_height;
    faces_across = g.tile_width / BLOCK;
    exponents = format.exponent_bytes(g.tile_elements());
    tile_bytes = format.tile_bytes(g.tile_elements());
    row_bytes = BLOCK * static_cast<std::size_t>(format.bits()) / 8;
    padded_columns = g.tile_columns() * g.tile_width;
  }
  // Tiles are one or two faces wide: no division in the inner loop.
  std::size_t tile(std::size_t column) const { return column / BLOCK >> (faces_across - 1); }
  std::size_t across(std::size_t column) const { return column / BLOCK & (faces_across - 1); }
  // The place among the blocks of its tile of stored row `r` of face (down, across).
  std::size_t block(std::size_t down, std::size_t across, std::size_t r) const {
    return (g.swap_faces ? across * faces_down + down : down * faces_across + across) * g.face_height + r;
  }
};

template <int KEEP, bool DEVICE, class Source>
void pack_rows(const TileGrid& g, BlockFormat format, const std::byte* values, std::byte* image, float pad, std::size_t begin,
               std::size_t end) {
  std::uint32_t pad_bits;
  std::memcpy(&pad_bits, &pad, 4);
  for (std::size_t index = begin; index < end; ++index) {
    const TileRow t(g, format, index);
    const std::byte* source = values + (index / g.tile_rows() * g.rows + t.top) * g.columns * Source::size;
    std::byte* target = image + index * g.tile_columns() * t.tile_bytes;
    const auto put = [&](std::byte* tile, std::size_t block, u32x16 bits) __attribute__((always_inline)) {
      const auto encoded = encode<KEEP, DEVICE>(bits);
      tile[block] = static_cast<std::byte>(encoded.exponent);
      put_codes<KEEP>(tile + t.exponents + block * t.row_bytes, encoded.codes);
    };
    const auto element = [&](std::size_t row, std::size_t column) {
      return row < t.height && column < g.columns ? Source::bits1(source + (row * g.columns + column) * Source::size) : pad_bits;
    };
    const std::size_t blocks = g.tile_elements() / BLOCK;
    for (std::size_t tile = 0; tile < g.tile_columns(); ++tile)
      for (std::size_t b = blocks; b < t.exponents; ++b) target[tile * t.tile_bytes + b] = std::byte{0};
    for (std::size_t stretch = 0; stretch < t.padded_columns; stretch += TileRow::STRETCH) {
      const std::size_t stop = stretch + TileRow::STRETCH < t.padded_columns ? stretch + TileRow::STRETCH : t.padded_columns;
      for (std::size_t row = 0; row < g.tile_height; ++row) {
        const std::size_t down = row / g.face_height, r = row % g.face_height;
        for (std::size_t column = stretch; column < stop; column += BLOCK) {
          std::byte* tile = target + t.tile(column) * t.tile_bytes;
          const std::size_t block = t.block(down, t.across(column), r);
          if (__builtin_expect(!g.swap_elements && row < t.height && column + BLOCK <= g.columns, 1)) {
            put(tile, block, Source::bits(source + (row * g.columns + column) * Source::size));
            continue;
          }
          u32x16 bits{};
          for (std::size_t c = 0; c < BLOCK; ++c)
            bits[c] = g.swap_elements ? element(down * g.face_height + c, column + r) : element(row, column + c);
          put(tile, block, bits);
        }
      }
    }
  }
}

template <int KEEP, class Target>
void unpack_rows(const TileGrid& g, BlockFormat format, const std::byte* image, std::byte* values, std::size_t begin, std::size_t end) {
  for (std::size_t index = begin; index < end; ++index) {
    const TileRow t(g, format, index);
    std::byte* target = values + (index / g.tile_rows() * g.rows + t.top) * g.columns * Target::size;
    const std::byte* source = image + index * g.tile_columns() * t.tile_bytes;
    for (std::size_t stretch = 0; stretch < t.padded_columns; stretch += TileRow::STRETCH) {
      const std::size_t stop = stretch + TileRow::STRETCH < t.padded_columns ? stretch + TileRow::STRETCH : t.padded_columns;
      for (std::size_t row = 0; row < (g.swap_elements ? g.tile_height : t.height); ++row) {
        const std::size_t down = row / g.face_height, r = row % g.face_height;
        for (std::size_t column = stretch; column < stop; column += BLOCK) {
          const std::byte* tile = source + t.tile(column) * t.tile_bytes;
          const std::size_t block = t.block(down, t.across(column), r);
          const u32x16 bits = decode<KEEP>(get_codes<KEEP>(tile + t.exponents + block * t.row_bytes), static_cast<std::int32_t>(tile[block]));
          if (__builtin_expect(!g.swap_elements && column + BLOCK <= g.columns, 1)) {
            Target::put(target + (row * g.columns + column) * Target::size, bits);
            continue;
          }
          for (std::size_t c = 0; c < BLOCK; ++c) {
            const std::size_t to_row = g.swap_elements ? down * g.face_height + c : row, to_column = column + (g.swap_elements ? r : c);
            if (to_row < t.height && to_column < g.columns) Target::put1(target + (to_row * g.columns + to_column) * Target::size, bits[c]);
          }
        }
      }
    }
  }
}

template <int KEEP, bool DEVICE, class Source, class Target>
void quantize_rows(const std::byte* from, std::byte* to, std::size_t columns, std::size_t begin, std::size_t end) {
  const auto onto_grid = [](u32x16 bits) __attribute__((always_inline)) {
    const auto encoded = encode<KEEP, DEVICE>(bits);
    return decode<KEEP>(encoded.codes, encoded.exponent);
  };
  const std::size_t whole = columns % BLOCK == 0 ? (end - begin) * columns : columns / BLOCK * BLOCK;
  const std::size_t rows = columns % BLOCK == 0 ? 1 : end - begin;  // full rows lie end to end: one long row
  for (std::size_t row = 0; row < rows; ++row) {
    const std::byte* source = from + (begin + row) * columns * Source::size;
    std::byte* target = to + (begin + row) * columns * Target::size;
    for (std::size_t c = 0; c < whole; c += BLOCK)
      Target::put(target + c * Target::size, onto_grid(Source::bits(source + c * Source::size)));
    if (columns % BLOCK == 0) continue;
    u32x16 bits{};
    for (std::size_t c = whole; c < columns; ++c) bits[c - whole] = Source::bits1(source + c * Source::size);
    bits = onto_grid(bits);
    for (std::size_t c = whole; c < columns; ++c) Target::put1(target + c * Target::size, bits[c - whole]);
  }
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
              std::size_t begin, std::size_t end) {
  with_rounding(format, [&](auto keep, auto device) {
    with_kind(from_kind, [&](auto source) {
      with_kind(to_kind, [&](auto target) {
        quantize_rows<keep.value, device.value, decltype(source), decltype(target)>(from, to, columns, begin, end);
      });
    });
  });
}

}  // namespace

TESSERA_DEFINE_KERNELS(BlockKernels){pack, unpack, quantize};
