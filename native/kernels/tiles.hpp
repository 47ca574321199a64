// Moving elements between row-major matrices and tiles, for every element size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.hpp"

namespace tessera {

// A stack of row-major matrices and the tiles it is cut into. Tiles lie in row-major order of tiles; inside a tile,
// faces (face_height x 16) in row-major order of faces and elements in row-major order inside a face. `swap_faces`
// stores the faces of a tile in column-major order, `swap_elements` the elements of a face.
struct TileGrid {
  std::size_t matrices, rows, columns;   // of the row-major side, without padding
  std::size_t tile_height, tile_width;   // of a tile
  std::size_t face_height;               // of a face; faces are 16 wide
  bool swap_faces, swap_elements;

  std::size_t tile_rows() const { return (rows + tile_height - 1) / tile_height; }    // in one matrix
  std::size_t tile_columns() const { return (columns + tile_width - 1) / tile_width; }
  std::size_t tile_elements() const { return tile_height * tile_width; }
};

// Results larger than this are written past the caches.
constexpr std::size_t STREAM_BYTES = std::size_t{6} << 20;

struct TileKernels {
  // Rows of tiles [begin, end), counted over all matrices. `pad` points to one element.
  void (*tilize)(const TileGrid&, std::size_t element_size, const std::byte* matrix, std::byte* tiles, const std::byte* pad,
                 std::size_t begin, std::size_t end);
  void (*untilize)(const TileGrid&, std::size_t element_size, const std::byte* tiles, std::byte* matrix, std::size_t begin,
                   std::size_t end);
};

}  // namespace tessera

TESSERA_DECLARE_KERNELS(TileKernels)
