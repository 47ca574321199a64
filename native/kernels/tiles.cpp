#include "kernels/tiles.hpp"

#include <cstring>

namespace {

using tessera::TileGrid;

constexpr std::size_t FACE_WIDTH = 16;

template <std::size_t SIZE>
struct Element {
  unsigned char bytes[SIZE];
};

// Where the elements of a tile lie: offset of (row, column) = row_offset of its face + ...
struct Places {
  std::size_t face_area, faces_down, faces_across;
  explicit Places(const TileGrid& g)
      : face_area(g.face_height * FACE_WIDTH), faces_down(g.tile_height / g.face_height), faces_across(g.tile_width / FACE_WIDTH) {}

  std::size_t face(const TileGrid& g, std::size_t down, std::size_t across) const {
    return face_area * (g.swap_faces ? across * faces_down + down : down * faces_across + across);
  }
};

template <std::size_t SIZE>
void tilize_rows(const TileGrid& g, const std::byte* matrix_bytes, std::byte* tile_bytes, const std::byte* pad_bytes, std::size_t begin,
                 std::size_t end) {
  using T = Element<SIZE>;
  const T* matrix = reinterpret_cast<const T*>(matrix_bytes);
  T* tiles = reinterpret_cast<T*>(tile_bytes);
  T pad;
  std::memcpy(&pad, pad_bytes, SIZE);
  const Places places(g);
  const std::size_t tile_rows = g.tile_rows(), tile_columns = g.tile_columns(), area = g.tile_elements();
  for (std::size_t tile_row = begin; tile_row < end; ++tile_row) {
    const std::size_t top = tile_row % tile_rows * g.tile_height;
    const T* source = matrix + (tile_row / tile_rows * g.rows + top) * g.columns;
    T* target = tiles + tile_row * tile_columns * area;
    for (std::size_t column = 0; column < tile_columns * g.tile_width; column += FACE_WIDTH) {
      T* tile = target + column / g.tile_width * area;
      const std::size_t across = column % g.tile_width / FACE_WIDTH;
      const std::size_t width = column >= g.columns ? 0 : (g.columns - column < FACE_WIDTH ? g.columns - column : FACE_WIDTH);
      for (std::size_t down = 0; down < places.faces_down; ++down) {
        T* face = tile + places.face(g, down, across);
        for (std::size_t r = 0; r < g.face_height; ++r) {
          const std::size_t row = down * g.face_height + r;
          const bool inside = top + row < g.rows;
          const T* from = source + row * g.columns + column;
          if (!g.swap_elements) {
            T* to = face + r * FACE_WIDTH;
            if (inside && width == FACE_WIDTH) {
              std::memcpy(to, from, FACE_WIDTH * SIZE);
            } else {
              for (std::size_t c = 0; c < FACE_WIDTH; ++c) to[c] = inside && c < width ? from[c] : pad;
            }
          } else {
            for (std::size_t c = 0; c < FACE_WIDTH; ++c) face[c * g.face_height + r] = inside && c < width ? from[c] : pad;
          }
        }
      }
    }
  }
}

template <std::size_t SIZE>
void untilize_rows(const TileGrid& g, const std::byte* tile_bytes, std::byte* matrix_bytes, std::size_t begin, std::size_t end) {
  using T = Element<SIZE>;
  const T* tiles = reinterpret_cast<const T*>(tile_bytes);
  T* matrix = reinterpret_cast<T*>(matrix_bytes);
  const Places places(g);
  const std::size_t tile_rows = g.tile_rows(), tile_columns = g.tile_columns(), area = g.tile_elements();
  for (std::size_t tile_row = begin; tile_row < end; ++tile_row) {
    const std::size_t top = tile_row % tile_rows * g.tile_height;
    T* target = matrix + (tile_row / tile_rows * g.rows + top) * g.columns;
    const T* source = tiles + tile_row * tile_columns * area;
    const std::size_t height = g.rows - top < g.tile_height ? g.rows - top : g.tile_height;
    for (std::size_t row = 0; row < height; ++row) {
      const std::size_t down = row / g.face_height, r = row % g.face_height;
      T* to = target + row * g.columns;
      for (std::size_t column = 0; column < g.columns; column += FACE_WIDTH) {
        const T* face = source + column / g.tile_width * area + places.face(g, down, column % g.tile_width / FACE_WIDTH);
        const std::size_t width = g.columns - column < FACE_WIDTH ? g.columns - column : FACE_WIDTH;
        if (!g.swap_elements && width == FACE_WIDTH) {
          std::memcpy(to + column, face + r * FACE_WIDTH, FACE_WIDTH * SIZE);
        } else {
          for (std::size_t c = 0; c < width; ++c)
            to[column + c] = g.swap_elements ? face[c * g.face_height + r] : face[r * FACE_WIDTH + c];
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
