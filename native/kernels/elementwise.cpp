#include "kernels/elementwise.hpp"

#include <type_traits>

#include "kernels/simd.hpp"

namespace {

using tessera::Binary;
using tessera::Operand;
using tessera::Unary;
using tessera::WideOperand;

// -- the steps

#define STEP1(Name, expression) \
  struct Name {                 \
    TESSERA_INLINE f32v of(f32v x) { return expression; } \
  };
#define STEP2(Name, expression) \
  struct Name {                 \
    TESSERA_INLINE f32v of(f32v a, f32v b) { return expression; } \
  };

STEP1(Copy, x)
STEP1(Neg, real(ubits(x) ^ 0x80000000u))
STEP1(Abs, magnitude(x))
STEP1(Relu, x < 0.0f ? f32v{} : x)

// The same steps on the bits of bfloat16 as they lie in memory: nothing is widened, nothing rounds.
typedef std::uint16_t u16v __attribute__((vector_size(TESSERA_VECTOR_BYTES)));
typedef u16v u16v_any __attribute__((aligned(2), may_alias));
#define BITS1(Name, expression) \
  struct Name {                 \
    TESSERA_INLINE u16v of(u16v x) { return expression; } \
  };
BITS1(CopyBits, x)
BITS1(NegBits, x ^ 0x8000)
BITS1(AbsBits, x & 0x7fff)
BITS1(ReluBits, (x > 0x8000) & (x <= 0xff80) ? u16v{} : x)  // below zero; -0 and NaN stay
STEP1(Square, x* x)
STEP1(Sqrt, square_root(x))
STEP1(Rsqrt, reciprocal_root(x))
STEP1(Reciprocal, 1.0f / x)
STEP1(Exp, exponential(x))
STEP1(Log_, logarithm(x))
STEP1(Log2, logarithm2(x))
STEP1(Sigmoid, logistic(x))
STEP1(Silu, x == -INFINITE ? -f32v{} : x * logistic(x))
STEP1(Tanh, hyperbolic_tangent(x))
STEP1(Erf, error_function(x))
STEP1(Gelu, gaussian_gate(x))
STEP1(Sign, x > 0.0f ? all(1.0f) : (x < 0.0f ? all(-1.0f) : f32v{}))

STEP1(Exp2, exponential2(x))

STEP2(Add, a + b)
STEP2(Sub, a - b)
STEP2(Mul, a* b)
STEP2(Div, a / b)
STEP2(Maximum, larger(a, b))
STEP2(Minimum, smaller(a, b))
STEP2(Eq, a == b ? all(1.0f) : f32v{})
STEP2(Ne, a != b ? all(1.0f) : f32v{})
STEP2(Lt, a < b ? all(1.0f) : f32v{})
STEP2(Le, a <= b ? all(1.0f) : f32v{})
STEP2(Gt, a > b ? all(1.0f) : f32v{})
STEP2(Ge, a >= b ? all(1.0f) : f32v{})
STEP2(Rsub, b - a)
STEP2(SquaredDifference, (a - b) * (a - b))

// -- the loops: what walks along a row, and what stands still

template <class Step>
void bits_row(const bf16* in, bf16* out, std::size_t count) {
  const auto flushed_bits = [](u16v x) __attribute__((always_inline)) { return (x & 0x7f80) == 0 ? x & 0x8000 : x; };
  std::size_t i = 0;
  for (; i + PAIR <= count; i += PAIR)
    *reinterpret_cast<u16v_any*>(out + i) = flushed_bits(Step::of(*reinterpret_cast<const u16v_any*>(in + i)));
  if (i == count) return;
  u16v rest{};
  std::memcpy(&rest, in + i, (count - i) * sizeof(bf16));
  rest = flushed_bits(Step::of(rest));
  std::memcpy(out + i, &rest, (count - i) * sizeof(bf16));
}

template <class Step>
void float_row(const float* in, bf16* out, std::size_t count) {
  std::size_t i = 0;
  for (; i + LANES <= count; i += LANES) store_row(out + i, Step::of(quiet(load(in + i))));
  if (i == count) return;
  float from[LANES] = {};
  bf16 to[LANES];
  std::memcpy(from, in + i, (count - i) * sizeof(float));
  store_row(to, Step::of(quiet(load(from))));
  std::memcpy(out + i, to, (count - i) * sizeof(bf16));
}

struct Row {
  const bf16* p;
  TESSERA_INLINE Pair at(const Row& r, std::size_t i) { return load(r.p + i); }
  TESSERA_INLINE Pair some(const Row& r, std::size_t i, std::size_t n) { return load_some(r.p + i, n); }
};
struct One {
  f32v v;
  explicit One(float x) : v(all(x)) {}
  TESSERA_INLINE Pair at(const One& o, std::size_t) { return {o.v, o.v}; }
  TESSERA_INLINE Pair some(const One& o, std::size_t, std::size_t) { return {o.v, o.v}; }
};

template <class Step>
void unary_row(const bf16* in, bf16* out, std::size_t count) {
  const auto both = [](Pair x) __attribute__((always_inline)) { return Pair{Step::of(x.low), Step::of(x.high)}; };
  std::size_t i = 0;
  for (; i + PAIR <= count; i += PAIR) store(out + i, both(load(in + i)));
  if (i < count) store_some(out + i, both(load_some(in + i, count - i)), count - i);
}

template <class Step, class A, class B>
TESSERA_INLINE void binary_loop(const A& a, const B& b, bf16* out, std::size_t count) {
  const auto both = [](Pair x, Pair y) __attribute__((always_inline)) { return Pair{Step::of(x.low, y.low), Step::of(x.high, y.high)}; };
  std::size_t i = 0;
  for (; i + PAIR <= count; i += PAIR) store(out + i, both(A::at(a, i), B::at(b, i)));
  if (i < count) store_some(out + i, both(A::some(a, i, count - i), B::some(b, i, count - i)), count - i);
}

template <class Step>
void binary_row(Operand a, Operand b, bf16* out, std::size_t count) {
  if (a.row && b.row) {
    binary_loop<Step>(Row{a.row}, Row{b.row}, out, count);
  } else if (a.row) {
    binary_loop<Step>(Row{a.row}, One(b.value), out, count);
  } else if (b.row) {
    binary_loop<Step>(One(a.value), Row{b.row}, out, count);
  } else {
    binary_loop<Step>(One(a.value), One(b.value), out, count);
  }
}

// The first operand alone, with all its bits.
void first_row(Operand a, Operand, bf16* out, std::size_t count) {
  if (a.row) {
    std::memcpy(out, a.row, count * sizeof(bf16));
  } else {
    const bf16 value = round_one(a.value);
    for (std::size_t i = 0; i < count; ++i) out[i] = value;
  }
}

template <class A, class B>
TESSERA_INLINE void where_loop(const bf16* condition, const A& a, const B& b, bf16* out, std::size_t count) {
  const auto both = [](Pair c, Pair x, Pair y) __attribute__((always_inline)) {
    return Pair{c.low != 0.0f ? x.low : y.low, c.high != 0.0f ? x.high : y.high};
  };
  std::size_t i = 0;
  for (; i + PAIR <= count; i += PAIR) store_as_is(out + i, both(load(condition + i), A::at(a, i), B::at(b, i)));
  const std::size_t left = count - i;
  if (left) {
    bf16 room[PAIR];
    store_as_is(room, both(load_some(condition + i, left), A::some(a, i, left), B::some(b, i, left)));
    std::memcpy(out + i, room, left * sizeof(bf16));
  }
}

// -- the loops that stay in fp32

template <class T>
struct WideRow {
  const T* p;
  TESSERA_INLINE f32v read(const bf16* from) { return load_row(from); }
  TESSERA_INLINE f32v read(const float* from) { return load(from); }
  TESSERA_INLINE f32v at(const WideRow& r, std::size_t i) { return read(r.p + i); }
  TESSERA_INLINE f32v some(const WideRow& r, std::size_t i, std::size_t n) {
    T room[LANES] = {};
    std::memcpy(room, r.p + i, n * sizeof(T));
    return read(room);
  }
};
struct WideOne {
  f32v v;
  explicit WideOne(float x) : v(all(x)) {}
  TESSERA_INLINE f32v at(const WideOne& o, std::size_t) { return o.v; }
  TESSERA_INLINE f32v some(const WideOne& o, std::size_t, std::size_t) { return o.v; }
};

TESSERA_INLINE void store_rest(float* out, f32v x, std::size_t count) {
  float room[LANES];
  store(room, x);
  std::memcpy(out, room, count * sizeof(float));
}

template <class Step, class A, class B>
TESSERA_INLINE void binary_wide_loop(const A& a, const B& b, float* out, std::size_t count) {
  std::size_t i = 0;
  for (; i + LANES <= count; i += LANES) store(out + i, flushed(Step::of(A::at(a, i), B::at(b, i))));
  if (i < count) store_rest(out + i, flushed(Step::of(A::some(a, i, count - i), B::some(b, i, count - i))), count - i);
}

template <class Visit>
TESSERA_INLINE void with_operand(const WideOperand& x, Visit visit) {
  if (!x.row) {
    visit(WideOne(x.value));
  } else if (x.is_float) {
    visit(WideRow<float>{static_cast<const float*>(x.row)});
  } else {
    visit(WideRow<bf16>{static_cast<const bf16*>(x.row)});
  }
}

template <class Step>
void binary_wide_row(WideOperand a, WideOperand b, float* out, std::size_t count) {
  with_operand(a, [&](const auto& left) { with_operand(b, [&](const auto& right) { binary_wide_loop<Step>(left, right, out, count); }); });
}

void first_wide_row(WideOperand a, WideOperand, float* out, std::size_t count) {
  with_operand(a, [&](const auto& left) {
    using A = std::remove_cv_t<std::remove_reference_t<decltype(left)>>;
    std::size_t i = 0;
    for (; i + LANES <= count; i += LANES) store(out + i, A::at(left, i));
    if (i < count) store_rest(out + i, A::some(left, i, count - i), count - i);
  });
}

template <class Step>
void unary_wide_row(WideOperand in, float* out, std::size_t count) {
  with_operand(in, [&](const auto& x) {
    using X = std::remove_cv_t<std::remove_reference_t<decltype(x)>>;
    std::size_t i = 0;
    for (; i + LANES <= count; i += LANES) store(out + i, flushed(Step::of(X::at(x, i))));
    if (i < count) store_rest(out + i, flushed(Step::of(X::some(x, i, count - i))), count - i);
  });
}

// -- the tables, in the order of the enums

#define TESSERA_ROUNDING(row)                                                                                                            \
  row<Square>, row<Sqrt>, row<Rsqrt>, row<Reciprocal>, row<Exp>, row<Exp2>, row<Log_>, row<Log2>, row<Sigmoid>, row<Silu>, row<Tanh>, row<Erf>, \
      row<Sign>, row<Gelu>
constexpr void (*UNARY[])(const bf16*, bf16*, std::size_t) = {bits_row<CopyBits>, bits_row<NegBits>, bits_row<AbsBits>, bits_row<ReluBits>,
                                                              TESSERA_ROUNDING(unary_row)};
constexpr void (*OF_FLOAT[])(const float*, bf16*, std::size_t) = {float_row<Copy>, float_row<Neg>, float_row<Abs>, float_row<Relu>,
                                                                  TESSERA_ROUNDING(float_row)};
#define TESSERA_BINARY(row) \
  row<Add>, row<Sub>, row<Mul>, row<Div>, row<Maximum>, row<Minimum>, row<Eq>, row<Ne>, row<Lt>, row<Le>, row<Gt>, row<Ge>, row<SquaredDifference>, row<Rsub>
constexpr void (*BINARY[])(Operand, Operand, bf16*, std::size_t) = {TESSERA_BINARY(binary_row), first_row};
constexpr void (*BINARY_WIDE[])(WideOperand, WideOperand, float*, std::size_t) = {TESSERA_BINARY(binary_wide_row), first_wide_row};
static_assert(sizeof(UNARY) / sizeof(*UNARY) == static_cast<std::size_t>(Unary::count), "one row for each step");
static_assert(sizeof(BINARY) / sizeof(*BINARY) == static_cast<std::size_t>(Binary::count), "one row for each step");

void unary(Unary step, const bf16* in, bf16* out, std::size_t count) { UNARY[static_cast<std::size_t>(step)](in, out, count); }

void unary_of_float(Unary step, const float* in, bf16* out, std::size_t count) { OF_FLOAT[static_cast<std::size_t>(step)](in, out, count); }

void unary_wide(Unary step, WideOperand in, float* out, std::size_t count) {
  switch (step) {
    case Unary::copy: return unary_wide_row<Copy>(in, out, count);
    case Unary::neg: return unary_wide_row<Neg>(in, out, count);
    case Unary::abs: return unary_wide_row<Abs>(in, out, count);
    case Unary::relu: return unary_wide_row<Relu>(in, out, count);
    case Unary::square: return unary_wide_row<Square>(in, out, count);
    case Unary::sqrt: return unary_wide_row<Sqrt>(in, out, count);
    case Unary::reciprocal: return unary_wide_row<Reciprocal>(in, out, count);
    case Unary::sign: return unary_wide_row<Sign>(in, out, count);
    default: return;
  }
}

void binary_wide(Binary step, WideOperand a, WideOperand b, float* out, std::size_t count) {
  BINARY_WIDE[static_cast<std::size_t>(step)](a, b, out, count);
}

void table_wide(const float* table, const bf16* in, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = table[in[i]];
}

void binary(Binary step, Operand a, Operand b, bf16* out, std::size_t count) { BINARY[static_cast<std::size_t>(step)](a, b, out, count); }

void where(const bf16* condition, Operand a, Operand b, bf16* out, std::size_t count) {
  if (a.row && b.row) {
    where_loop(condition, Row{a.row}, Row{b.row}, out, count);
  } else if (a.row) {
    where_loop(condition, Row{a.row}, One(b.value), out, count);
  } else if (b.row) {
    where_loop(condition, One(a.value), Row{b.row}, out, count);
  } else {
    where_loop(condition, One(a.value), One(b.value), out, count);
  }
}

void table(const bf16* table, const bf16* in, bf16* out, std::size_t count) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const bf16 a = table[in[i]], b = table[in[i + 1]], c = table[in[i + 2]], d = table[in[i + 3]];
    out[i] = a, out[i + 1] = b, out[i + 2] = c, out[i + 3] = d;
  }
  for (; i < count; ++i) out[i] = table[in[i]];
}

}  // namespace

TESSERA_DEFINE_KERNELS(ElementwiseKernels){unary, unary_of_float, binary, unary_wide, binary_wide, table_wide, where, table};
