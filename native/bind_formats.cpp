// The kernels of tessera.formats: layout changes and block floats.
#include <stdexcept>

#include "bindings.hpp"
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

}  // namespace

void bind_formats(nb::module_& module) {
  module.def("tilize", tilize, "Row-major matrices into tiles; the padding of edge tiles becomes the low bytes of `pad`.");
  module.def("untilize", untilize, "Tiles into row-major matrices; padding is left behind.");
}
