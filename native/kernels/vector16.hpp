// Sixteen lanes, in the compiler's own vector types: one AVX-512 register, two of AVX2, four of SSE2 or NEON.
//
// Included only by sources in kernels/, inside their anonymous namespace, so that no copy of these functions is shared
// between instruction sets.
#pragma once

#include <cstdint>
#include <cstring>

#define TESSERA_INLINE inline __attribute__((always_inline))

using i32x16 = std::int32_t __attribute__((vector_size(64)));
using u32x16 = std::uint32_t __attribute__((vector_size(64)));
using f32x16 = float __attribute__((vector_size(64)));
using u16x16 = std::uint16_t __attribute__((vector_size(32)));
using u8x16 = std::uint8_t __attribute__((vector_size(16)));

template <class Vector>
TESSERA_INLINE Vector load(const void* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class Vector>
TESSERA_INLINE void store(void* to, Vector v) {
  std::memcpy(to, &v, sizeof v);
}

template <class To, class From>
TESSERA_INLINE To as(From v) {
  static_assert(sizeof(To) == sizeof(From), "a reinterpretation keeps every bit");
  To result;
  std::memcpy(&result, &v, sizeof result);
  return result;
}

// Largest lane.
TESSERA_INLINE std::int32_t max_lane(i32x16 v) {
  using i32x8 = std::int32_t __attribute__((vector_size(32)));
  using i32x4 = std::int32_t __attribute__((vector_size(16)));
  i32x8 halves[2];
  std::memcpy(halves, &v, sizeof v);
  const i32x8 eight = halves[0] > halves[1] ? halves[0] : halves[1];
  i32x4 quarters[2];
  std::memcpy(quarters, &eight, sizeof eight);
  i32x4 four = quarters[0] > quarters[1] ? quarters[0] : quarters[1];
  i32x4 swapped = __builtin_shuffle(four, i32x4{2, 3, 0, 1});
  four = four > swapped ? four : swapped;
  swapped = __builtin_shuffle(four, i32x4{1, 0, 3, 2});
  four = four > swapped ? four : swapped;
  return four[0];
}

// Sixteen elements of storage as float32 and back. Narrowing to bfloat16 keeps the upper half: exact for numbers on its grid.
struct Float32 {
  static constexpr std::size_t size = 4;
  static TESSERA_INLINE u32x16 bits(const std::byte* from) { return load<u32x16>(from); }
  static TESSERA_INLINE void put(std::byte* to, u32x16 v) { store(to, v); }
  static TESSERA_INLINE std::uint32_t bits1(const std::byte* from) {
    std::uint32_t word;
    std::memcpy(&word, from, 4);
    return word;
  }
  static TESSERA_INLINE void put1(std::byte* to, std::uint32_t v) { std::memcpy(to, &v, 4); }
};

struct Bfloat16 {
  static constexpr std::size_t size = 2;
  static TESSERA_INLINE u32x16 bits(const std::byte* from) {
    return __builtin_convertvector(load<u16x16>(from), u32x16) << 16;
  }
  static TESSERA_INLINE void put(std::byte* to, u32x16 v) { store(to, __builtin_convertvector(v >> 16, u16x16)); }
  static TESSERA_INLINE std::uint32_t bits1(const std::byte* from) {
    std::uint16_t half;
    std::memcpy(&half, from, 2);
    return static_cast<std::uint32_t>(half) << 16;
  }
  static TESSERA_INLINE void put1(std::byte* to, std::uint32_t v) {
    const std::uint16_t half = static_cast<std::uint16_t>(v >> 16);
    std::memcpy(to, &half, 2);
  }
};
