#include "kernels/rows.hpp"

#include "kernels/simd.hpp"

namespace {

using tessera::NormRow;

TESSERA_INLINE float total(f32v x) {
  float v[LANES];
  store(v, x);
  for (std::size_t width = LANES / 2; width > 0; width /= 2)
    for (std::size_t i = 0; i < width; ++i) v[i] += v[i + width];
  return v[0];
}

template <class Better>
TESSERA_INLINE float best_of(f32v x, Better better) {
  float v[LANES];
  store(v, x);
  for (std::size_t i = 1; i < LANES; ++i) v[0] = better(v[i], v[0]) || v[i] != v[i] ? v[i] : v[0];
  return v[0];
}

// Visits a row in pairs of vectors; the last, incomplete one is filled up with `fill`.
template <class Visit>
TESSERA_INLINE void over(const bf16* in, std::size_t count, bf16 fill, Visit visit) {
  std::size_t i = 0;
  for (; i + PAIR <= count; i += PAIR) visit(i, load(in + i));
  if (i < count) visit(i, load_some(in + i, count - i, fill));
}

TESSERA_INLINE void put(bf16* out, std::size_t i, std::size_t count, Pair x) {
  if (i + PAIR <= count) {
    store(out + i, x);
  } else {
    store_some(out + i, x, count - i);
  }
}

TESSERA_INLINE Pair at(const bf16* in, std::size_t i, std::size_t count) {
  return i + PAIR <= count ? load(in + i) : load_some(in + i, count - i);
}

constexpr bf16 MINUS_INFINITY = 0xff80, PLUS_INFINITY = 0x7f80;

float row_sum(const bf16* in, std::size_t count) {
  f32v a{}, b{};
  over(in, count, 0, [&](std::size_t, Pair x) __attribute__((always_inline)) {
    a += x.low;
    b += x.high;
  });
  return total(a + b);
}

float row_max(const bf16* in, std::size_t count) {
  f32v a = all(-INFINITE), b = a;
  over(in, count, MINUS_INFINITY, [&](std::size_t, Pair x) __attribute__((always_inline)) {
    a = larger(a, x.low);
    b = larger(b, x.high);
  });
  return best_of(larger(a, b), [](float x, float y) { return x > y; });
}

float row_min(const bf16* in, std::size_t count) {
  f32v a = all(INFINITE), b = a;
  over(in, count, PLUS_INFINITY, [&](std::size_t, Pair x) __attribute__((always_inline)) {
    a = smaller(a, x.low);
    b = smaller(b, x.high);
  });
  return best_of(smaller(a, b), [](float x, float y) { return x < y; });
}

TESSERA_INLINE bool any(i32v mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask(reinterpret_cast<__m512i>(mask), reinterpret_cast<__m512i>(mask)) != 0;
#else
  std::int32_t together = 0;
  for (std::size_t i = 0; i < LANES; ++i) together |= mask[i];
  return together != 0;
#endif
}

std::size_t row_find(const bf16* in, std::size_t count, float value) {
  const bool nan = value != value;
  const f32v wanted = all(value);
  const auto is = [&](f32v x) __attribute__((always_inline)) { return nan ? (x != x) : (x == wanted); };
  std::size_t i = 0;
  for (; i + PAIR <= count; i += PAIR) {
    const Pair x = load(in + i);
    if (any(is(x.low) | is(x.high))) break;
  }
  for (; i < count; ++i) {
    const float x = widen_one(in[i]);
    if (nan ? x != x : x == value) return i;
  }
  return 0;
}

void row_softmax(const bf16* in, const bf16* mask, float scale, bf16* out, std::size_t count, float* scratch) {
  const bool plain = mask == nullptr && scale == 1.0f;
  float top;
  if (plain) {
    top = row_max(in, count);
  } else {
    f32v a = all(-INFINITE);
    over(in, count, 0, [&](std::size_t i, Pair x) __attribute__((always_inline)) {
      x = {x.low * scale, x.high * scale};
      if (mask) {
        const Pair m = at(mask, i, count);
        x = {x.low + m.low, x.high + m.high};
      }
      if (i + PAIR > count) {
        bf16 ends[PAIR];
        for (std::size_t k = 0; k < PAIR; ++k) ends[k] = i + k < count ? 0 : MINUS_INFINITY;
        const Pair e = load(ends);
        x = {x.low + e.low, x.high + e.high};
      }
      store(scratch + i, x.low);
      store(scratch + i + LANES, x.high);
      a = larger(a, larger(x.low, x.high));
    });
    top = best_of(a, [](float x, float y) { return x > y; });
  }
  f32v sum_low{}, sum_high{};
  const auto step = [&](std::size_t i, Pair x) __attribute__((always_inline)) {
    const f32v low = exponential(x.low - top), high = exponential(x.high - top);
    store(scratch + i, low);
    store(scratch + i + LANES, high);
    sum_low += low;
    sum_high += high;
  };
  if (plain) {
    over(in, count, MINUS_INFINITY, step);
  } else {
    for (std::size_t i = 0; i < count; i += PAIR) step(i, {load(scratch + i), load(scratch + i + LANES)});
  }
  const float factor = 1.0f / total(sum_low + sum_high);
  for (std::size_t i = 0; i < count; i += PAIR) put(out, i, count, {load(scratch + i) * factor, load(scratch + i + LANES) * factor});
}

float weigh(float* in, const bf16* mask, float scale, bf16* weights, std::size_t count) {
  const std::size_t whole = count / LANES * LANES;
  f32v top = all(-INFINITE);
  float best = -INFINITE;
  for (std::size_t i = 0; i < whole; i += LANES) {
    f32v x = load(in + i) * scale;
    if (mask) x += load_row(mask + i);
    store(in + i, x);
    top = larger(top, x);
  }
  for (std::size_t i = whole; i < count; ++i) {
    in[i] = in[i] * scale + (mask ? widen_one(mask[i]) : 0.0f);
    best = in[i] > best || in[i] != in[i] ? in[i] : best;
  }
  const float most = best_of(larger(top, all(best)), [](float x, float y) { return x > y; });
  f32v sum{};
  for (std::size_t i = 0; i < whole; i += LANES) {
    const f32v e = exponential(load(in + i) - most);
    store_row(weights + i, e);
    sum += e;
  }
  if (whole < count) {
    float rest[LANES];
    bf16 to[LANES];
    for (std::size_t i = 0; i < LANES; ++i) rest[i] = whole + i < count ? in[whole + i] : -INFINITE;
    const f32v e = exponential(load(rest) - most);
    store_row(to, e);
    std::memcpy(weights + whole, to, (count - whole) * sizeof(bf16));
    sum += e;
  }
  return total(sum);
}

void row_norm(const NormRow& row, bf16* out, std::size_t count, float* scratch) {
  f32v sum_low{}, sum_high{};
  const std::size_t whole = count / PAIR * PAIR;
  float mean = 0.0f;
  const float share = 1.0f / static_cast<float>(count);
  const auto element = [&](std::size_t i, Pair x) __attribute__((always_inline)) {
    if (!row.residual) return x;
    const Pair r = at(row.residual, i, count);
    return Pair{x.low + r.low, x.high + r.high};
  };
  if (row.centered) {
    over(row.in, count, 0, [&](std::size_t i, Pair x) __attribute__((always_inline)) {
      x = element(i, x);
      store(scratch + i, x.low);
      store(scratch + i + LANES, x.high);
      sum_low += x.low;
      sum_high += x.high;
    });
    mean = total(sum_low + sum_high) * share;
    sum_low = sum_high = f32v{};
    for (std::size_t i = 0; i < whole; i += PAIR) {
      const f32v low = load(scratch + i) - mean, high = load(scratch + i + LANES) - mean;
      sum_low = fma(low, low, sum_low);
      sum_high = fma(high, high, sum_high);
    }
    if (whole < count) {  // what fills the last pair must not count as -mean
      for (std::size_t k = 0; k < PAIR; ++k)
        if (whole + k >= count) scratch[whole + (k % 2) * LANES + k / 2] = mean;
      const f32v low = load(scratch + whole) - mean, high = load(scratch + whole + LANES) - mean;
      sum_low = fma(low, low, sum_low);
      sum_high = fma(high, high, sum_high);
    }
  } else {
    over(row.in, count, 0, [&](std::size_t i, Pair x) __attribute__((always_inline)) {
      x = element(i, x);
      store(scratch + i, x.low);
      store(scratch + i + LANES, x.high);
      sum_low = fma(x.low, x.low, sum_low);
      sum_high = fma(x.high, x.high, sum_high);
    });
  }
  const float variance = total(sum_low + sum_high) * share;
  const float factor = 1.0f / __builtin_sqrtf(variance + row.epsilon);
  for (std::size_t i = 0; i < count; i += PAIR) {
    Pair x{(load(scratch + i) - mean) * factor, (load(scratch + i + LANES) - mean) * factor};
    if (row.weight) {
      const Pair w = at(row.weight, i, count);
      x = {x.low * w.low, x.high * w.high};
    }
    if (row.bias) {
      const Pair b = at(row.bias, i, count);
      x = {x.low + b.low, x.high + b.high};
    }
    put(out, i, count, x);
  }
}

// The lanes move up by DISTANCE; zeros come in.
template <std::size_t DISTANCE>
TESSERA_INLINE f32v moved_up(f32v x) {
#if defined(__AVX512F__)
  return reinterpret_cast<f32v>(_mm512_alignr_epi32(_mm512_castps_si512(raw(x)), _mm512_setzero_si512(), 16 - DISTANCE));
#else
  f32v y{};
  for (std::size_t i = DISTANCE; i < LANES; ++i) y[i] = x[i - DISTANCE];
  return y;
#endif
}

void row_cumsum(const bf16* in, bf16* out, std::size_t count) {
  f32v carry{};
  over(in, count, 0, [&](std::size_t i, Pair x) __attribute__((always_inline)) {
    const f32v own = x.low + x.high;  // prefix sums of neighbours, then each neighbour by itself
    f32v sums = own + moved_up<1>(own);
    sums += moved_up<2>(sums);
    if constexpr (LANES >= 8) sums += moved_up<4>(sums);
    if constexpr (LANES >= 16) sums += moved_up<8>(sums);
    const f32v inclusive = sums + carry;
    put(out, i, count, {moved_up<1>(sums) + carry + x.low, inclusive});
#if defined(__AVX512F__)
    carry = reinterpret_cast<f32v>(_mm512_permutexvar_ps(_mm512_set1_epi32(15), raw(inclusive)));
#else
    carry = all(inclusive[LANES - 1]);
#endif
  });
}

typedef std::uint16_t h8 __attribute__((vector_size(16)));
typedef std::uint32_t w4 __attribute__((vector_size(16)));
typedef std::uint64_t d2 __attribute__((vector_size(16)));
typedef h8 h8_any __attribute__((aligned(2), may_alias));

TESSERA_INLINE void transpose_8x8(const bf16* in, std::size_t in_stride, bf16* out, std::size_t out_stride) {
  h8 r[8], a[8], b[8];
  for (int i = 0; i < 8; ++i) r[i] = *reinterpret_cast<const h8_any*>(in + i * in_stride);
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = __builtin_shuffle(r[2 * i], r[2 * i + 1], h8{0, 8, 1, 9, 2, 10, 3, 11});
    a[2 * i + 1] = __builtin_shuffle(r[2 * i], r[2 * i + 1], h8{4, 12, 5, 13, 6, 14, 7, 15});
  }
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 2; ++i) {
      const w4 x = reinterpret_cast<w4>(a[4 * half + i]), y = reinterpret_cast<w4>(a[4 * half + i + 2]);
      b[4 * half + 2 * i] = reinterpret_cast<h8>(__builtin_shuffle(x, y, w4{0, 4, 1, 5}));
      b[4 * half + 2 * i + 1] = reinterpret_cast<h8>(__builtin_shuffle(x, y, w4{2, 6, 3, 7}));
    }
  for (int i = 0; i < 4; ++i) {
    const d2 x = reinterpret_cast<d2>(b[i]), y = reinterpret_cast<d2>(b[i + 4]);
    *reinterpret_cast<h8_any*>(out + (2 * i) * out_stride) = reinterpret_cast<h8>(__builtin_shuffle(x, y, d2{0, 2}));
    *reinterpret_cast<h8_any*>(out + (2 * i + 1) * out_stride) = reinterpret_cast<h8>(__builtin_shuffle(x, y, d2{1, 3}));
  }
}

void transpose(const bf16* in, std::size_t in_stride, bf16* out, std::size_t out_stride, std::size_t rows, std::size_t columns) {
  constexpr std::size_t BLOCK = 32;  // a whole cache line on both sides
  for (std::size_t top = 0; top < rows; top += BLOCK) {
    const std::size_t height = rows - top < BLOCK ? rows - top : BLOCK;
    for (std::size_t left = 0; left < columns; left += BLOCK) {
      const std::size_t width = columns - left < BLOCK ? columns - left : BLOCK;
      const bf16* from = in + top * in_stride + left;
      bf16* to = out + left * out_stride + top;
      const std::size_t even_height = height / 8 * 8, even_width = width / 8 * 8;
      for (std::size_t c = 0; c < even_width; c += 8)
        for (std::size_t r = 0; r < even_height; r += 8) transpose_8x8(from + r * in_stride + c, in_stride, to + c * out_stride + r, out_stride);
      for (std::size_t r = 0; r < height; ++r)
        for (std::size_t c = r < even_height ? even_width : 0; c < width; ++c) to[c * out_stride + r] = from[r * in_stride + c];
    }
  }
}

}  // namespace

TESSERA_DEFINE_KERNELS(RowKernels){row_softmax, row_norm, row_sum, row_max, row_min, row_find, row_cumsum, weigh, transpose};
