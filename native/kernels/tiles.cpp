#include "kernels/tiles.hpp"

#include <cstring>

namespace {

using tessera::TileGrid;

constexpr std::size_t FACE_WIDTH = 16;

template <std::size_t SIZE>
struct Element {
  unsigned char bytes[SIZE];
};

// A stretch of tiles is walked row by row, so that the row-major side is read (or written) in runs and the tiles stay in the
// L1 cache. Tiles are one or two faces wide: no division in the inner loop.
constexpr std::size_t STRETCH_BYTES = 1024;

struct TileRow {
  const TileGrid& g;
  std::size_t top, height, face_area, faces_down, faces_across, padded_columns;

  TileRow(const TileGrid& grid, std::size_t index) : g(grid) {
    top = index % g.tile_rows() * g.tile_height;
    height = g.rows - top < g.tile_height ? g.rows - top : g.tile_height;
    face_area = g.face_height * FACE_WIDTH;
    faces_down = g.tile_height / g.face_height;
    faces_across = g.tile_width / FACE_WIDTH;
    padded_columns = g.tile_columns() * g.tile_width;
  }
  // Index in the tile row of the first element of the face that holds (down, column).
  std::size_t face(std::size_t down, std::size_t column) const {
    const std::size_t tile = column / FACE_WIDTH >> (faces_across - 1), across = column / FACE_WIDTH & (faces_across - 1);
    return tile * g.tile_elements() + face_area * (g.swap_faces ? across * faces_down + down : down * faces_across + across);
  }
};

template <std::size_t SIZE>
void tilize_rows(const TileGrid& g, const std::byte* matrix_bytes, std::byte* tile_bytes, const std::byte* pad_bytes, std::size_t begin,
                 std::size_t end) {
  using T = Element<SIZE>;
  T pad;
  std::memcpy(&pad, pad_bytes, SIZE);
  for (std::size_t index = begin; index < end; ++index) {
    const TileRow t(g, index);
    const T* source = reinterpret_cast<const T*>(matrix_bytes) + (index / g.tile_rows() * g.rows + t.top) * g.columns;
    T* target = reinterpret_cast<T*>(tile_bytes) + index * g.tile_columns() * g.tile_elements();
    for (std::size_t stretch = 0; stretch < t.padded_columns; stretch += STRETCH_BYTES / SIZE) {
      const std::size_t stop = stretch + STRETCH_BYTES / SIZE < t.padded_columns ? stretch + STRETCH_BYTES / SIZE : t.padded_columns;
      for (std::size_t row = 0; row < g.tile_height; ++row) {
        const std::size_t down = row / g.face_height, r = row % g.face_height;
        const bool inside = row < t.height;
        const T* from = source + row * g.columns;
        for (std::size_t column = stretch; column < stop; column += FACE_WIDTH) {
          T* face = target + t.face(down, column);
          if (inside && !g.swap_elements && column + FACE_WIDTH <= g.columns) {
            std::memcpy(face + r * FACE_WIDTH, from + column, FACE_WIDTH * SIZE);
            continue;
          }
          for (std::size_t c = 0; c < FACE_WIDTH; ++c)
            face[g.swap_elements ? c * g.face_height + r : r * FACE_WIDTH + c] = inside && column + c < g.columns ? from[column + c] : pad;
        }
      }
    }
  }
}

template <std::size_t SIZE>
void untilize_rows(const TileGrid& g, const std::byte* tile_bytes, std::byte* matrix_bytes, std::size_t begin, std::size_t end) {
  using T = Element<SIZE>;
  for (std::size_t index = begin; index < end; ++index) {
    const TileRow t(g, index);
    T* target = reinterpret_cast<T*>(matrix_bytes) + (index / g.tile_rows() * g.rows + t.top) * g.columns;
    const T* source = reinterpret_cast<const T*>(tile_bytes) + index * g.tile_columns() * g.tile_elements();
    for (std::size_t stretch = 0; stretch < g.columns; stretch += STRETCH_BYTES / SIZE) {
      const std::size_t stop = stretch + STRETCH_BYTES / SIZE < g.columns ? stretch + STRETCH_BYTES / SIZE : g.columns;
      for (std::size_t row = 0; row < t.height; ++row) {
        const std::size_t down = row / g.face_height, r = row % g.face_height;
        T* to = target + row * g.columns;
        for (std::size_t column = stretch; column < stop; column += FACE_WIDTH) {
          const T* face = source + t.face(down, column);
          if (!g.swap_elements && column + FACE_WIDTH <= stop) {
            std::memcpy(to + column, face + r * FACE_WIDTH, FACE_WIDTH * SIZE);
            continue;
          }
          for (std::size_t c = 0; c < FACE_WIDTH && column + c < stop; ++c)
            to[column + c] = face[g.swap_elements ? c * g.face_height + r : r * FACE_WIDTH + c];
        }
      }
    }
  }
}

void tilize(const TileGrid& g, std::size_t size, const std::byte* matrix, std::byte* tiles, const std::byte* pad, std::size_t begin,
            std::size_t end) {
  switch (size) {
    case 1: return tilize_rows<1>(g, matrix, tiles, pad, begin, end);
    case 2: return tilize_rows<2>(g, matrix, tiles, pad, begin, end);
    case 4: return tilize_rows<4>(g, matrix, tiles, pad, begin, end);
    case 8: return tilize_rows<8>(g, matrix, tiles, pad, begin, end);
  }
}

void untilize(const TileGrid& g, std::size_t size, const std::byte* tiles, std::byte* matrix, std::size_t begin, std::size_t end) {
  switch (size) {
    case 1: return untilize_rows<1>(g, tiles, matrix, begin, end);
    case 2: return untilize_rows<2>(g, tiles, matrix, begin, end);
    case 4: return untilize_rows<4>(g, tiles, matrix, begin, end);
    case 8: return untilize_rows<8>(g, tiles, matrix, begin, end);
  }
}

}  // namespace

TESSERA_DEFINE_KERNELS(TileKernels){tilize, untilize};
