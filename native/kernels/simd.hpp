// As many floats at a time as the instruction set holds, from one source.
//
// GCC's vector extensions with the native width (16, 8 or 4 floats); a few operations that they cannot spell are wrapped here. Every
// lane does the same IEEE operations in the same order everywhere, fused multiply-adds included, and no approximate
// instruction is used, so results do not depend on the machine.
//
// bfloat16 is read in pairs: of 2 * LANES consecutive elements, those in the low halves of 32-bit words and those in the high halves.
// Widening is then a shift and a mask, and rounding puts them back without moving anything across lanes.
//
// Only for sources in kernels/; everything is in an anonymous namespace because each instruction set compiles its own copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wunused-function"
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"          // vectors never cross a call: everything here is inlined
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 on its own headers of intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define TESSERA_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define TESSERA_VECTOR_BYTES 32
#else
#define TESSERA_VECTOR_BYTES 16
#endif

#define TESSERA_INLINE static inline __attribute__((always_inline))

namespace {

using bf16 = std::uint16_t;
typedef float f32v __attribute__((vector_size(TESSERA_VECTOR_BYTES)));
typedef std::int32_t i32v __attribute__((vector_size(TESSERA_VECTOR_BYTES)));
typedef std::uint32_t u32v __attribute__((vector_size(TESSERA_VECTOR_BYTES)));
typedef f32v f32v_any __attribute__((aligned(4), may_alias));
typedef u32v u32v_any __attribute__((aligned(2), may_alias));

constexpr std::size_t LANES = TESSERA_VECTOR_BYTES / 4;
constexpr std::size_t PAIR = 2 * LANES;

TESSERA_INLINE f32v all(float x) { return x - f32v{}; }  // -0.0 stays what it is
TESSERA_INLINE i32v bits(f32v x) { return reinterpret_cast<i32v>(x); }
TESSERA_INLINE u32v ubits(f32v x) { return reinterpret_cast<u32v>(x); }
TESSERA_INLINE f32v real(i32v x) { return reinterpret_cast<f32v>(x); }
TESSERA_INLINE f32v real(u32v x) { return reinterpret_cast<f32v>(x); }

// -- what the language cannot spell

#if defined(__AVX512F__)
TESSERA_INLINE __m512 raw(f32v x) { return reinterpret_cast<__m512>(x); }
TESSERA_INLINE f32v fma(f32v a, f32v b, f32v c) { return reinterpret_cast<f32v>(_mm512_fmadd_ps(raw(a), raw(b), raw(c))); }
TESSERA_INLINE f32v square_root(f32v x) { return reinterpret_cast<f32v>(_mm512_sqrt_ps(raw(x))); }
TESSERA_INLINE f32v lesser(f32v a, f32v b) { return reinterpret_cast<f32v>(_mm512_min_ps(raw(a), raw(b))); }   // a < b ? a : b
TESSERA_INLINE f32v greater(f32v a, f32v b) { return reinterpret_cast<f32v>(_mm512_max_ps(raw(a), raw(b))); }  // a > b ? a : b
// Is every lane in [low, high]? False for NaN.
TESSERA_INLINE bool within(f32v x, float low, float high) {
  return (_mm512_cmp_ps_mask(raw(x), _mm512_set1_ps(low), _CMP_GE_OQ) & _mm512_cmp_ps_mask(raw(x), _mm512_set1_ps(high), _CMP_LE_OQ)) == 0xffff;
}
#elif defined(__AVX2__)
TESSERA_INLINE __m256 raw(f32v x) { return reinterpret_cast<__m256>(x); }
TESSERA_INLINE f32v fma(f32v a, f32v b, f32v c) { return reinterpret_cast<f32v>(_mm256_fmadd_ps(raw(a), raw(b), raw(c))); }
TESSERA_INLINE f32v square_root(f32v x) { return reinterpret_cast<f32v>(_mm256_sqrt_ps(raw(x))); }
TESSERA_INLINE f32v lesser(f32v a, f32v b) { return reinterpret_cast<f32v>(_mm256_min_ps(raw(a), raw(b))); }
TESSERA_INLINE f32v greater(f32v a, f32v b) { return reinterpret_cast<f32v>(_mm256_max_ps(raw(a), raw(b))); }
TESSERA_INLINE bool within(f32v x, float low, float high) {
  const __m256 inside = _mm256_and_ps(_mm256_cmp_ps(raw(x), _mm256_set1_ps(low), _CMP_GE_OQ), _mm256_cmp_ps(raw(x), _mm256_set1_ps(high), _CMP_LE_OQ));
  return _mm256_movemask_ps(inside) == 0xff;
}
#else
TESSERA_INLINE f32v fma(f32v a, f32v b, f32v c) {
  for (std::size_t i = 0; i < LANES; ++i) a[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return a;
}
TESSERA_INLINE f32v square_root(f32v x) {
  for (std::size_t i = 0; i < LANES; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
}
TESSERA_INLINE f32v lesser(f32v a, f32v b) { return a < b ? a : b; }
TESSERA_INLINE f32v greater(f32v a, f32v b) { return a > b ? a : b; }
TESSERA_INLINE bool within(f32v x, float low, float high) {
  for (std::size_t i = 0; i < LANES; ++i)
    if (!(x[i] >= low && x[i] <= high)) return false;
  return true;
}
#endif

TESSERA_INLINE f32v fma(f32v a, f32v b, float c) { return fma(a, b, all(c)); }
TESSERA_INLINE f32v fma(f32v a, float b, f32v c) { return fma(a, all(b), c); }
TESSERA_INLINE f32v fma(f32v a, float b, float c) { return fma(a, all(b), all(c)); }

// NaN if either is NaN, as torch.maximum.
TESSERA_INLINE f32v larger(f32v a, f32v b) {
  const f32v m = greater(a, b);  // b where either is NaN
  return a != a ? a : m;
}
TESSERA_INLINE f32v smaller(f32v a, f32v b) {
  const f32v m = lesser(a, b);
  return a != a ? a : m;
}
TESSERA_INLINE f32v magnitude(f32v x) { return real(ubits(x) & 0x7fffffffu); }

// -- loads widen, stores round to nearest even

struct Pair {
  f32v low, high;  // elements 0, 2, 4, ... and 1, 3, 5, ...
};

TESSERA_INLINE Pair split(u32v words) { return {real(words << 16), real(words & 0xffff0000u)}; }
TESSERA_INLINE Pair load(const bf16* p) { return split(*reinterpret_cast<const u32v_any*>(p)); }
TESSERA_INLINE f32v load(const float* p) { return *reinterpret_cast<const f32v_any*>(p); }
TESSERA_INLINE void store(float* p, f32v x) { *reinterpret_cast<f32v_any*>(p) = x; }

// Nearest even in the upper sixteen bits. A NaN with all of its low bits set would overflow into a zero; NaNs that were widened from
// bfloat16, or that arithmetic made, never have them. `quiet` first for NaNs out of fp32 memory.
TESSERA_INLINE u32v rounded(f32v x) {
  const u32v u = ubits(x);
  return u + 0x7fffu + ((u >> 16) & 1u);
}
// As the chip's packer: subnormal numbers become zeros of their sign.
TESSERA_INLINE f32v flushed(f32v x) {
#if defined(__AVX512F__)
  const __mmask16 tiny = _mm512_testn_epi32_mask(_mm512_castps_si512(raw(x)), _mm512_set1_epi32(0x7f800000));
  return reinterpret_cast<f32v>(_mm512_mask_and_epi32(_mm512_castps_si512(raw(x)), tiny, _mm512_castps_si512(raw(x)), _mm512_set1_epi32(-0x7fffffff - 1)));
#else
  return (ubits(x) & 0x7f800000u) == 0u ? real(ubits(x) & 0x80000000u) : x;
#endif
}
TESSERA_INLINE f32v quiet(f32v x) { return x != x ? all(__builtin_nanf("")) : x; }
TESSERA_INLINE u32v joined(Pair x) { return (rounded(flushed(x.low)) >> 16) | (rounded(flushed(x.high)) & 0xffff0000u); }
// For elements that were bfloat16 before: every bit stays.
TESSERA_INLINE void store_as_is(bf16* p, Pair x) { *reinterpret_cast<u32v_any*>(p) = (rounded(x.low) >> 16) | (rounded(x.high) & 0xffff0000u); }
TESSERA_INLINE void store(bf16* p, Pair x) { *reinterpret_cast<u32v_any*>(p) = joined(x); }

// LANES consecutive numbers, rounded.
typedef std::uint16_t h16v __attribute__((vector_size(TESSERA_VECTOR_BYTES / 2)));
typedef h16v h16v_any __attribute__((aligned(2), may_alias));
TESSERA_INLINE void store_row(bf16* p, f32v x) {
  const u32v half = rounded(flushed(x)) >> 16;
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(half)));
#else
  *reinterpret_cast<h16v_any*>(p) = __builtin_convertvector(half, h16v);
#endif
}
TESSERA_INLINE f32v load_row(const bf16* p) {
#if defined(__AVX512F__)
  return real(reinterpret_cast<u32v>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))) << 16);
#else
  return real(__builtin_convertvector(*reinterpret_cast<const h16v_any*>(p), u32v) << 16);
#endif
}

TESSERA_INLINE float widen_one(bf16 x) {
  const std::uint32_t u = static_cast<std::uint32_t>(x) << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
TESSERA_INLINE bf16 round_one(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  return static_cast<bf16>(x != x ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// The last elements of a row, fewer than PAIR; the others are `fill`.
TESSERA_INLINE Pair load_some(const bf16* p, std::size_t count, bf16 fill = 0) {
  bf16 room[PAIR];
  for (std::size_t i = 0; i < PAIR; ++i) room[i] = fill;
  std::memcpy(room, p, count * sizeof(bf16));
  return load(room);
}
TESSERA_INLINE void store_some(bf16* p, Pair x, std::size_t count) {
  bf16 room[PAIR];
  store(room, x);
  std::memcpy(p, room, count * sizeof(bf16));
}

// -- elementary functions, accurate enough that rounding to bfloat16 is all but always right (relative error given with each)

// p * 2^n for whole |n| <= 252 and p near one; rounded once, also where the result is subnormal.
TESSERA_INLINE f32v scale(f32v p, f32v n) {
#if defined(__AVX512F__)
  return reinterpret_cast<f32v>(_mm512_scalef_ps(raw(p), raw(n)));
#else
  const i32v whole = __builtin_convertvector(n, i32v), half = whole >> 1;
  return p * real((half + 127) << 23) * real((whole - half + 127) << 23);
#endif
}

constexpr float LOG2_E = 1.44269504088896341f, LN_2 = 0.693147181f;
constexpr float ROUNDER = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
constexpr float INFINITE = __builtin_inff();

// 2^f for |f| <= 1/2: 2^-23.
TESSERA_INLINE f32v power_of_two(f32v f) {
  f32v p = fma(f, 0.0013264696628829536f, 0.009671534133061564f);
  p = fma(p, f, 0.05550734011562802f);
  p = fma(p, f, 0.24022241755797777f);
  p = fma(p, f, 0.6931469773487514f);
  return fma(p, f, 1.0f);
}

// e^x: 2^-19. The limits lie beyond overflow and underflow; NaN passes them.
TESSERA_INLINE f32v exponential(f32v x) {
  x = lesser(all(105.0f), greater(all(-105.0f), x));
  const f32v whole = fma(x, LOG2_E, ROUNDER) - ROUNDER;
  return scale(power_of_two(fma(x, LOG2_E, -whole)), whole);
}
TESSERA_INLINE f32v exponential2(f32v x) {
  x = lesser(all(151.0f), greater(all(-151.0f), x));
  const f32v whole = (x + ROUNDER) - ROUNDER;
  return scale(power_of_two(x - whole), whole);
}

// log(x) = exponent * ln 2 + mantissa, for a normal x > 0: 2^-19. Mantissas lie in [2/3, 4/3), so nothing cancels.
struct Log {
  f32v exponent, mantissa;
};
TESSERA_INLINE Log log_of_normal(f32v x) {
  const i32v e = (bits(x) - 0x3f2aaaab) >> 23;
  const f32v f = real(bits(x) - (e << 23)) - 1.0f;
  f32v p = fma(f, 0.1701686591500495f, -0.1938759339308175f);
  p = fma(p, f, 0.1981336273019919f);
  p = fma(p, f, -0.24844821012387375f);
  p = fma(p, f, 0.3333694724954438f);
  p = fma(p, f, -0.500021303401038f);
  return {__builtin_convertvector(e, f32v), fma(p * f, f, f)};
}
// All x: `combine` makes the result of the two parts.
template <class Combine>
TESSERA_INLINE f32v log_with(f32v x, Combine combine) {
  if (__builtin_expect(within(x, 1.17549435e-38f, 3.4028235e38f), 1)) {
    const Log l = log_of_normal(x);
    return combine(l.exponent, l.mantissa);
  }
  const i32v tiny = (x < 1.17549435e-38f);
  const Log l = log_of_normal(tiny ? x * 16777216.0f : x);
  f32v value = combine(tiny ? l.exponent - 24.0f : l.exponent, l.mantissa);
  value = x == INFINITE ? x : value;
  value = x == 0.0f ? all(-INFINITE) : value;
  value = x < 0.0f ? all(__builtin_nanf("")) : value;
  return x != x ? x : value;
}
TESSERA_INLINE f32v logarithm(f32v x) {
  return log_with(x, [](f32v e, f32v m) __attribute__((always_inline)) { return fma(e, LN_2, m); });
}
TESSERA_INLINE f32v logarithm2(f32v x) {
  return log_with(x, [](f32v e, f32v m) __attribute__((always_inline)) { return fma(m, LOG2_E, e); });
}

// 1 / (1 + e^-x) by e^-|x|: no overflow, no cancellation.
TESSERA_INLINE f32v logistic(f32v x) {
  const f32v e = exponential(real(ubits(x) | 0x80000000u));
  const f32v q = 1.0f / (1.0f + e);
  return x < 0.0f ? e * q : q;
}

// Rational in x^2: 2^-25 up to 4.5, where tanh is 1 - 2^-12; constant beyond (bfloat16 rounds it to one).
TESSERA_INLINE f32v hyperbolic_tangent(f32v x) {
  const f32v c = lesser(all(4.5f), greater(all(-4.5f), x));
  const f32v z = c * c;
  f32v p = fma(z, 5.497577533181142e-06f, 0.002557778282319293f);
  p = fma(p, z, 0.12596394090413604f);
  p = fma(p, z, 0.9999999772966498f);
  f32v q = fma(z, 0.00017509054173174554f, 0.022323904294256035f);
  q = fma(q, z, 0.45929702615463996f);
  q = fma(q, z, 1.0f);
  return c * (p / q);
}

// The same for erf: 2^-19 up to 2.8, where it is 1 - 2^-14.
TESSERA_INLINE f32v error_function(f32v x) {
  const f32v c = lesser(all(2.8f), greater(all(-2.8f), x));
  const f32v z = c * c;
  f32v p = fma(z, 0.0007382707402426858f, 0.04299426445924394f);
  p = fma(p, z, 0.15388928531113968f);
  p = fma(p, z, 1.1283806887890961f);
  f32v q = fma(z, 0.00921333940747427f, 0.09455307360197163f);
  q = fma(q, z, 0.4697472148873229f);
  q = fma(q, z, 1.0f);
  return c * (p / q);
}

// x * Phi(x). Phi(-z) = e^(-z^2 / 2) * G(z) with a smooth G, rational: nothing cancels in the tail. 2^-17.
TESSERA_INLINE f32v gaussian_gate(f32v x) {
  const f32v z = lesser(all(14.0f), magnitude(x));  // NaN stays
  f32v p = fma(z, 0.016944040024925083f, 0.11909465413792789f);
  p = fma(p, z, 0.3612104379696179f);
  p = fma(p, z, 0.4999998185681055f);
  f32v q = fma(z, 0.04247765458683894f, 0.29831660639291574f);
  q = fma(q, z, 0.9513470888231194f);
  q = fma(q, z, 1.5202873493932747f);
  q = fma(q, z, 1.0f);
  const f32v tail = exponential(z * z * -0.5f) * (p / q);
  const f32v below = lesser(x, f32v{}) * tail;
  return x > 0.0f ? x * (1.0f - tail) : (x < -14.0f ? -f32v{} : below);
}

// 1 / sqrt(x) by Newton's steps from an integer guess, without a square root or a division: 2^-22.
TESSERA_INLINE f32v rsqrt_of_normal(f32v x) {
  const f32v half = x * -0.5f;
  f32v y = real(0x5f375a86 - (bits(x) >> 1));
  y = y * fma(half * y, y, 1.5f);
  y = y * fma(half * y, y, 1.5f);
  return y * fma(half * y, y, 1.5f);
}
TESSERA_INLINE f32v reciprocal_root(f32v x) {
  if (__builtin_expect(within(x, 1.17549435e-38f, 3.4028235e38f), 1)) return rsqrt_of_normal(x);
  const i32v tiny = (x < 1.17549435e-38f);
  f32v y = rsqrt_of_normal(tiny ? x * 16777216.0f : x);
  y = tiny ? y * 4096.0f : y;
  y = x == INFINITE ? f32v{} : y;
  y = x == 0.0f ? real((ubits(x) & 0x80000000u) | 0x7f800000u) : y;
  y = x < 0.0f ? all(__builtin_nanf("")) : y;
  return x != x ? x : y;
}

}  // namespace
