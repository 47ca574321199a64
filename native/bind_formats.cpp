// The kernels of tessera.formats: layout changes and block floats.
#include <stdexcept>
#include <vector>

#include "bindings.hpp"
#include "kernels/block_sums.hpp"
#include "kernels/blocks.hpp"
#include "kernels/tiles.hpp"
#include "parallel.hpp"

namespace {

using namespace tessera;

// About this many bytes make a piece of work worth handing to another thread.
constexpr std::size_t PIECE_BYTES = 128 * 1024;

TileGrid make_grid(std::size_t matrices, std::size_t rows, std::size_t columns, std::size_t tile_height, std::size_t tile_width,
                   bool swap_faces, bool swap_elements) {
  const bool height_ok = tile_height != 0 && tile_height <= 32 && (tile_height & (tile_height - 1)) == 0;
  if (!height_ok || (tile_width != 16 && tile_width != 32)) throw std::invalid_argument("tile: height must be 1..32 (a power of two), width 16 or 32");
  return TileGrid{matrices, rows, columns, tile_height, tile_width, tile_height < 16 ? tile_height : 16, swap_faces, swap_elements};
}

void check_element(std::size_t size) {
  if (size != 1 && size != 2 && size != 4 && size != 8) throw std::invalid_argument("element_size must be 1, 2, 4 or 8");
}

std::size_t grain_of(const TileGrid& g, std::size_t bytes_per_element) {
  const std::size_t bytes = g.tile_columns() * g.tile_elements() * bytes_per_element;
  return bytes == 0 ? 1 : PIECE_BYTES / bytes + 1;
}

void tilize(Address matrix, Address tiles, std::size_t element_size, std::size_t matrices, std::size_t rows, std::size_t columns,
            std::size_t tile_height, std::size_t tile_width, bool swap_faces, bool swap_elements, std::uint64_t pad, int threads) {
  const TileGrid g = make_grid(matrices, rows, columns, tile_height, tile_width, swap_faces, swap_elements);
  check_element(element_size);
  nb::gil_scoped_release release;
  const auto& table = kernels<TileKernels>();
  parallel_for(g.matrices * g.tile_rows(), grain_of(g, element_size), threads, [&](std::size_t begin, std::size_t end) {
    table.tilize(g, element_size, pointer<std::byte>(matrix), pointer<std::byte>(tiles), reinterpret_cast<const std::byte*>(&pad), begin, end);
  });
}

void untilize(Address tiles, Address matrix, std::size_t element_size, std::size_t matrices, std::size_t rows, std::size_t columns,
              std::size_t tile_height, std::size_t tile_width, bool swap_faces, bool swap_elements, int threads) {
  const TileGrid g = make_grid(matrices, rows, columns, tile_height, tile_width, swap_faces, swap_elements);
  check_element(element_size);
  nb::gil_scoped_release release;
  const auto& table = kernels<TileKernels>();
  parallel_for(g.matrices * g.tile_rows(), grain_of(g, element_size), threads, [&](std::size_t begin, std::size_t end) {
    table.untilize(g, element_size, pointer<std::byte>(tiles), pointer<std::byte>(matrix), begin, end);
  });
}

FloatKind make_kind(int kind) {
  if (kind != 0 && kind != 1) throw std::invalid_argument("kind must be 0 (float32) or 1 (bfloat16)");
  return static_cast<FloatKind>(kind);
}

BlockFormat make_format(int magnitude_bits, bool device_rounding) {
  if (magnitude_bits != 7 && magnitude_bits != 3 && magnitude_bits != 1) throw std::invalid_argument("magnitude_bits must be 7, 3 or 1");
  return BlockFormat{magnitude_bits, device_rounding};
}

void pack_blocks(Address values, int values_kind, Address image, std::size_t matrices, std::size_t rows, std::size_t columns,
                 std::size_t tile_height, std::size_t tile_width, bool swap_faces, bool swap_elements, int magnitude_bits,
                 bool device_rounding, float pad, int threads) {
  const TileGrid g = make_grid(matrices, rows, columns, tile_height, tile_width, swap_faces, swap_elements);
  const BlockFormat format = make_format(magnitude_bits, device_rounding);
  const FloatKind kind = make_kind(values_kind);
  nb::gil_scoped_release release;
  const auto& table = kernels<BlockKernels>();
  parallel_for(g.matrices * g.tile_rows(), grain_of(g, float_size(kind)), threads, [&](std::size_t begin, std::size_t end) {
    table.pack(g, format, kind, pointer<std::byte>(values), pointer<std::byte>(image), pad, begin, end);
  });
}

void unpack_blocks(Address image, Address values, int values_kind, std::size_t matrices, std::size_t rows, std::size_t columns,
                   std::size_t tile_height, std::size_t tile_width, bool swap_faces, bool swap_elements, int magnitude_bits, int threads) {
  const TileGrid g = make_grid(matrices, rows, columns, tile_height, tile_width, swap_faces, swap_elements);
  const BlockFormat format = make_format(magnitude_bits, false);
  const FloatKind kind = make_kind(values_kind);
  nb::gil_scoped_release release;
  const auto& table = kernels<BlockKernels>();
  parallel_for(g.matrices * g.tile_rows(), grain_of(g, float_size(kind)), threads, [&](std::size_t begin, std::size_t end) {
    table.unpack(g, format, kind, pointer<std::byte>(image), pointer<std::byte>(values), begin, end);
  });
}

void quantize_blocks(Address from, int from_kind, Address to, int to_kind, std::size_t rows, std::size_t columns, int magnitude_bits,
                     bool device_rounding, int threads) {
  const BlockFormat format = make_format(magnitude_bits, device_rounding);
  const FloatKind source = make_kind(from_kind), target = make_kind(to_kind);
  if (from == to && source != target) throw std::invalid_argument("in place, both kinds must be the same");
  if (columns % 16 == 0 && columns != 0) rows *= columns / 16, columns = 16;  // whole blocks lie end to end: even pieces of work
  nb::gil_scoped_release release;
  const auto& table = kernels<BlockKernels>();
  const std::size_t grain = PIECE_BYTES / (columns * float_size(source) + 1) + 1;
  const bool past_caches = from != to && rows * columns * float_size(target) > STREAM_BYTES;
  parallel_for(rows, grain, threads, [&](std::size_t begin, std::size_t end) {
    table.quantize(format, source, pointer<std::byte>(from), target, pointer<std::byte>(to), columns, begin, end, past_caches);
  });
}

double sum_blocks(Address image, std::size_t tiles, std::size_t tile_elements, int magnitude_bits, int threads) {
  const BlockFormat format = make_format(magnitude_bits, false);
  if (tile_elements == 0 || tile_elements % 16 != 0) throw std::invalid_argument("tile_elements must be a multiple of 16");
  nb::gil_scoped_release release;
  // Equal pieces, added in order: the result does not depend on the number of threads.
  const std::size_t piece = PIECE_BYTES / format.tile_bytes(tile_elements) + 1;
  std::vector<double> sums((tiles + piece - 1) / piece);
  const auto& table = kernels<BlockSumKernels>();
  parallel_for(sums.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = i * piece, count = first + piece > tiles ? tiles - first : piece;
      sums[i] = table.sum(format, tile_elements, pointer<std::byte>(image) + first * format.tile_bytes(tile_elements), count);
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void bind_formats(nb::module_& module) {
  module.def("tilize", tilize, "Row-major matrices into tiles; the padding of edge tiles becomes the low bytes of `pad`.");
  module.def("untilize", untilize, "Tiles into row-major matrices; padding is left behind.");
  module.def("pack_blocks", pack_blocks, "Row-major float32 or bfloat16 into tiles of block floats, in one pass.");
  module.def("unpack_blocks", unpack_blocks, "Tiles of block floats into row-major float32 or bfloat16.");
  module.def("sum_blocks", sum_blocks, "The sum of packed tiles of block floats; NaN if any of them holds infinities or NaNs.");
  module.def("quantize_blocks", quantize_blocks, "Row-major floats onto a block float's grid, sixteen by sixteen along each row.");
}
