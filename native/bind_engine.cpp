// The engine's kernels, bound for tessera.engine. Steps are called by name; a name that has no step is looked up once, in Python.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "bindings.hpp"
#include "engine/chain.hpp"
#include "engine/elementwise.hpp"
#include "engine/launcher.hpp"
#include "engine/matmul.hpp"
#include "engine/rows.hpp"

namespace {

using namespace tessera;

// Letting other Python threads run costs more than a small kernel takes.
struct MaybeRelease {
  explicit MaybeRelease(std::size_t elements) {
    if (elements >= 64 * 1024) release.emplace();
  }
  std::optional<nb::gil_scoped_release> release;
};

constexpr const char* UNARY_NAMES[] = {"copy", "neg",  "abs", "relu", "square",  "sqrt", "rsqrt", "reciprocal", "exp",
                                       "exp2", "log", "log2", "sigmoid", "silu", "tanh",  "erf",        "sign", "gelu"};
constexpr const char* BINARY_NAMES[] = {"add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "squared_difference", "rsub", "first"};
static_assert(sizeof(UNARY_NAMES) / sizeof(*UNARY_NAMES) == static_cast<std::size_t>(Unary::count), "one name for each step");
static_assert(sizeof(BINARY_NAMES) / sizeof(*BINARY_NAMES) == static_cast<std::size_t>(Binary::count), "one name for each step");

template <std::size_t N>
nb::dict numbered(const char* const (&names)[N]) {
  nb::dict found;
  for (std::size_t i = 0; i < N; ++i) found[names[i]] = i;
  return found;
}

std::size_t volume(const Dims& dims) {
  std::size_t n = 1;
  for (std::int64_t d : dims) n *= static_cast<std::size_t>(d);
  return n;
}

Unary unary_step(int step) {
  if (step < 0 || step >= static_cast<int>(Unary::count)) throw std::invalid_argument("step: not a unary step");
  return static_cast<Unary>(step);
}

Binary binary_step(int step) {
  if (step < 0 || step >= static_cast<int>(Binary::count)) throw std::invalid_argument("step: not a binary step");
  return static_cast<Binary>(step);
}

using Words = std::uint16_t;

void unary(int step, Address in, Address out, std::size_t count, int threads) {
  const Unary s = unary_step(step);
  MaybeRelease release(count);
  run_unary(s, pointer<const Words>(in), pointer<Words>(out), count, threads);
}

void unary_of_float(int step, Address in, Address out, std::size_t count, int threads) {
  const Unary s = unary_step(step);
  MaybeRelease release(count);
  run_unary_of_float(s, pointer<const float>(in), pointer<Words>(out), count, threads);
}

void table(Address values, Address in, Address out, std::size_t count, int threads) {
  MaybeRelease release(count);
  run_table(pointer<const Words>(values), pointer<const Words>(in), pointer<Words>(out), count, threads);
}

void binary_flat(int step, Address a, Address b, Address out, std::size_t count, int threads) {
  const Binary s = binary_step(step);
  MaybeRelease release(count);
  run_binary_flat(s, {pointer<const Words>(a), 0.0f}, {pointer<const Words>(b), 0.0f}, pointer<Words>(out), count, threads);
}

void binary_scalar(int step, Address a, float value, bool reflected, Address out, std::size_t count, int threads) {
  const Binary s = binary_step(step);
  const Operand row{pointer<const Words>(a), 0.0f}, number{nullptr, value};
  MaybeRelease release(count);
  run_binary_flat(s, reflected ? number : row, reflected ? row : number, pointer<Words>(out), count, threads);
}

void binary(int step, Address a, float a_value, const Dims& a_dims, Address b, float b_value, const Dims& b_dims, Address out, const Dims& out_dims,
            int threads) {
  const Binary s = binary_step(step);
  MaybeRelease release(volume(out_dims));
  run_binary(s, pointer<const Words>(a), a_value, a_dims, pointer<const Words>(b), b_value, b_dims, pointer<Words>(out), out_dims, threads);
}

void unary_wide(int step, Address in, bool is_float, Address table, Address out, std::size_t count, int threads) {
  const Unary s = unary_step(table ? 0 : step);
  if (!is_exact(s) || (table && is_float)) throw std::invalid_argument("step: not an exact one, or a table for fp32");
  MaybeRelease release(count);
  run_unary_wide(s, {pointer<const void>(in), is_float, 0.0f}, pointer<const float>(table), pointer<float>(out), count, threads);
}

void binary_wide(int step, Address a, bool a_float, float a_value, const Dims& a_dims, Address b, bool b_float, float b_value, const Dims& b_dims, Address out,
                 const Dims& out_dims, int threads) {
  const Binary s = binary_step(step);
  MaybeRelease release(volume(out_dims));
  run_binary_wide(s, {pointer<const void>(a), a_float, a_value}, a_dims, {pointer<const void>(b), b_float, b_value}, b_dims, pointer<float>(out), out_dims,
                  threads);
}

void where(Address condition, const Dims& c_dims, Address a, float a_value, const Dims& a_dims, Address b, float b_value, const Dims& b_dims, Address out,
           const Dims& out_dims, int threads) {
  MaybeRelease release(volume(out_dims));
  run_where(pointer<const Words>(condition), c_dims, pointer<const Words>(a), a_value, a_dims, pointer<const Words>(b), b_value, b_dims,
            pointer<Words>(out), out_dims, threads);
}

void softmax(Address in, Address mask, std::size_t mask_rows, std::size_t mask_repeat, float scale, Address out, std::size_t rows, std::size_t width,
             int threads) {
  if (mask && (mask_rows == 0 || mask_repeat == 0)) throw std::invalid_argument("mask_rows and mask_repeat must be positive");
  MaybeRelease release(rows * width);
  run_softmax(pointer<const Words>(in), {pointer<const Words>(mask), mask_rows, mask_repeat}, scale, pointer<Words>(out), rows, width, threads);
}

void norm(Address in, Address residual, Address weight, Address bias, float epsilon, bool centered, Address out, std::size_t rows, std::size_t width,
          int threads) {
  MaybeRelease release(rows * width);
  const NormRow row{pointer<const Words>(in), pointer<const Words>(residual), pointer<const Words>(weight), pointer<const Words>(bias), epsilon, centered};
  run_norm(row, pointer<Words>(out), rows, width, threads);
}

Reduction reduction(int kind) {
  if (kind < 0 || kind > static_cast<int>(Reduction::min)) throw std::invalid_argument("kind: must be 0 (sum), 1 (max) or 2 (min)");
  return static_cast<Reduction>(kind);
}

void reduce(int kind, Address in, float scale, Address out, std::size_t rows, std::size_t width, int threads) {
  const Reduction k = reduction(kind);
  MaybeRelease release(rows * width);
  run_reduce(k, pointer<const Words>(in), scale, pointer<float>(out), rows, width, threads);
}

void arg(int kind, Address in, Address out, std::size_t rows, std::size_t width, int threads) {
  const Reduction k = reduction(kind);
  MaybeRelease release(rows * width);
  run_arg(k, pointer<const Words>(in), pointer<std::int64_t>(out), rows, width, threads);
}

void cumsum(Address in, Address out, std::size_t rows, std::size_t width, int threads) {
  MaybeRelease release(rows * width);
  run_cumsum(pointer<const Words>(in), pointer<Words>(out), rows, width, threads);
}

void sort(Address in, Address values, Address places, std::size_t rows, std::size_t width, std::size_t keep, bool descending, int threads) {
  MaybeRelease release(rows * width);
  run_sort(pointer<const Words>(in), pointer<Words>(values), pointer<std::int64_t>(places), rows, width, keep, descending, threads);
}

void gather(Address table, std::size_t rows, Address index, std::size_t count, Address out, std::size_t row_bytes, int threads) {
  MaybeRelease release(count * row_bytes / 2);
  run_gather(pointer<const void>(table), rows, pointer<const std::int64_t>(index), count, pointer<void>(out), row_bytes, threads);
}

void permute(Address in, Address out, std::size_t element_size, const Dims& dims, const Dims& order, int threads) {
  MaybeRelease release(volume(dims));
  run_permute(pointer<const void>(in), pointer<void>(out), element_size, dims, order, threads);
}

void matmul(Address left, Address right, int bits, bool transposed, Address bias, Address out, bool out_float, std::size_t m, std::size_t k, std::size_t n,
            int threads) {
  if (bits != 0 && bits != 3 && bits != 7) throw std::invalid_argument("bits: must be 0 (bfloat16), 7 or 3");
  if (bits && transposed) throw std::invalid_argument("transposed: not for block floats");
  MaybeRelease release(m * k * n);
  run_matmul(pointer<const Words>(left), {pointer<const void>(right), bits, transposed}, pointer<const Words>(bias), pointer<void>(out), out_float, m, k,
             n, threads);
}

void attention(Address q, Address k, Address v, Address mask, Address out, std::size_t batch, std::size_t heads, std::size_t shared, std::size_t rows,
               std::size_t keys, std::size_t width, std::size_t wide, std::size_t mask_batch, std::size_t mask_heads, float scale, bool causal, int threads) {
  if (width % 2 || !shared || heads % shared) throw std::invalid_argument("attention: width must be even, and shared heads must divide heads");
  if (mask && (!mask_batch || !mask_heads)) throw std::invalid_argument("attention: a mask has leading dimensions");
  MaybeRelease release(batch * heads * rows * keys);
  run_attention({pointer<const Words>(q), pointer<const Words>(k), pointer<const Words>(v), pointer<const Words>(mask), batch, heads, shared, rows, keys, width,
                 wide, mask_batch, mask_heads, scale, causal},
                pointer<Words>(out), threads);
}

using Row = std::tuple<int, int, int, int, int, float, Address>;

Chain* make_chain(const std::vector<Row>& rows, int registers, int inputs) {
  std::vector<ChainStep> steps;
  for (const auto& [kind, step, a, b, out, number, table] : rows)
    steps.push_back({static_cast<ChainStep::Kind>(kind), step, a, b, out, number, table});
  return new Chain(std::move(steps), registers, inputs);
}

void run_chain(const Chain& chain, const std::vector<Address>& memory, std::size_t count, int threads) {
  MaybeRelease release(count);
  chain.run(memory, count, threads);
}

}  // namespace

void bind_engine(nb::module_& module) {
  module.attr("UNARY_STEPS") = numbered(UNARY_NAMES);
  module.attr("BINARY_STEPS") = numbered(BINARY_NAMES);
  module.def("unary", unary, "One step over bfloat16 elements.");
  module.def("unary_of_float", unary_of_float, "One step over fp32 elements, rounded into bfloat16.");
  module.def("attention", attention, "softmax(q k^T * scale + mask) v for heads of bfloat16.");
  module.def("table", table, "A function of one bfloat16, given as its 65,536 values.");
  module.def("binary_flat", binary_flat, "One step over two operands of one shape.");
  module.def("binary_scalar", binary_scalar, "One step over an operand and a number; `reflected` puts the number first.");
  module.def("binary", binary, "One step over two operands that broadcast; address 0 means the number instead.");
  module.def("unary_wide", unary_wide, "An exact step, or a table of fp32, over bfloat16 or fp32 elements into fp32.");
  module.def("binary_wide", binary_wide, "One step over operands of bfloat16 or fp32 that broadcast, into fp32.");
  module.def("where", where, "condition != 0 ? a : b, broadcasting.");
  module.def("softmax", softmax, "softmax(in * scale + mask) of each row; row r of the input meets row r / mask_repeat % mask_rows of the mask.");
  module.def("norm", norm, "Layer norm (centered) or rms norm of each row of in + residual; address 0 for what is not there.");
  module.def("reduce", reduce, "Sum, maximum or minimum of each row, in fp32.");
  module.def("arg", arg, "Where the first maximum or minimum of each row is.");
  module.def("cumsum", cumsum, "Running sums of each row.");
  module.def("sort", sort, "The first `keep` elements of each row in order, and their places.");
  module.def("matmul", matmul, "left x right (+ bias); right is bfloat16, its transpose, or tiles of block floats with `bits` bits of magnitude.");
  module.def("gather", gather, "Rows of a table by index; an index beyond it means its nearest row.");
  module.def("permute", permute, "A contiguous copy with its dimensions in another order.");
  nb::class_<Chain>(module, "Chain", "Elementwise steps in a row, over blocks that stay in the L1 cache.")
      .def("__init__", [](Chain* self, const std::vector<Row>& rows, int registers, int inputs) {
        const std::unique_ptr<Chain> made(make_chain(rows, registers, inputs));
        new (self) Chain(*made);
      })
      .def("run", run_chain, "Runs on the memory of each register; address 0 for one that nobody outside needs.");
  nb::set_leak_warnings(false);  // traces that a program never released end with the process
  if (add_launcher(module.ptr()) < 0) throw nb::python_error();
}
