#include "kernels/tiles.hpp"

#include <cstring>
#if TESSERA_X86
#include <immintrin.h>
#endif

namespace {

#include "kernels/vector16.hpp"

using tessera::TileGrid;

constexpr std::size_t FACE_WIDTH = 16;
// How far ahead of the face in hand its rows are fetched: they lie too far apart for the processor to guess.
constexpr std::size_t AHEAD = 512;

template <std::size_t SIZE>
struct Element {
  unsigned char bytes[SIZE];
};

// One row of a face.
template <std::size_t SIZE>
struct Segment {
  unsigned char bytes[FACE_WIDTH * SIZE];
};

struct TileRow {
  const TileGrid& g;
  std::size_t top, height, faces_down, faces_across;

  TileRow(const TileGrid& grid, std::size_t index) : g(grid) {
    top = index % g.tile_rows() * g.tile_height;
    height = g.rows - top < g.tile_height ? g.rows - top : g.tile_height;
    faces_down = g.tile_height / g.face_height;
    faces_across = g.tile_width / FACE_WIDTH;
  }
  // Index in its tile of the first element of a face.
  std::size_t face(std::size_t down, std::size_t across) const {
    return g.face_height * FACE_WIDTH * (g.swap_faces ? across * faces_down + down : down * faces_across + across);
  }
  bool whole(std::size_t down, std::size_t column) const {
    return !g.swap_elements && (down + 1) * g.face_height <= height && column + FACE_WIDTH <= g.columns;
  }
};

template <std::size_t SIZE>
void tilize_rows(const TileGrid& g, const std::byte* matrix_bytes, std::byte* tile_bytes, const std::byte* pad_bytes, std::size_t begin,
                 std::size_t end) {
  using T = Element<SIZE>;
  T pad;
  std::memcpy(&pad, pad_bytes, SIZE);
  const std::size_t total = g.matrices * g.tile_rows() * g.tile_columns() * g.tile_elements() * SIZE;
  const bool past_caches = total > tessera::STREAM_BYTES && streamable(tile_bytes, g.face_height * FACE_WIDTH * SIZE);
  for (std::size_t index = begin; index < end; ++index) {
    const TileRow t(g, index);
    const T* source = reinterpret_cast<const T*>(matrix_bytes) + (index / g.tile_rows() * g.rows + t.top) * g.columns;
    T* tile = reinterpret_cast<T*>(tile_bytes) + index * g.tile_columns() * g.tile_elements();
    for (std::size_t left = 0; left < g.tile_columns() * g.tile_width; left += g.tile_width, tile += g.tile_elements()) {
      for (std::size_t place = 0; place < t.faces_down * t.faces_across; ++place) {
        const std::size_t down = place / t.faces_across, across = place % t.faces_across, column = left + across * FACE_WIDTH;
        T* face = tile + t.face(down, across);
        if (__builtin_expect(t.whole(down, column), 1)) {
          const T* from = source + down * g.face_height * g.columns + column;
          for (std::size_t r = 0; r < g.face_height; ++r, from += g.columns) {
            put_vector(face + r * FACE_WIDTH, load<Segment<SIZE>>(from), past_caches);
            __builtin_prefetch(reinterpret_cast<const char*>(from) + AHEAD);
          }
          continue;
        }
        for (std::size_t r = 0; r < g.face_height; ++r) {
          const std::size_t row = down * g.face_height + r;
          for (std::size_t c = 0; c < FACE_WIDTH; ++c) {
            const bool inside = row < t.height && column + c < g.columns;
            face[g.swap_elements ? c * g.face_height + r : r * FACE_WIDTH + c] = inside ? source[row * g.columns + column + c] : pad;
          }
        }
      }
    }
  }
  if (past_caches) end_streaming();
}

template <std::size_t SIZE>
void untilize_rows(const TileGrid& g, const std::byte* tile_bytes, std::byte* matrix_bytes, std::size_t begin, std::size_t end) {
  using T = Element<SIZE>;
  const bool past_caches =
      SIZE > 1 && g.tile_width == 32 && g.matrices * g.rows * g.columns * SIZE > tessera::STREAM_BYTES && streamable(matrix_bytes, g.columns * SIZE);
  for (std::size_t index = begin; index < end; ++index) {
    const TileRow t(g, index);
    T* target = reinterpret_cast<T*>(matrix_bytes) + (index / g.tile_rows() * g.rows + t.top) * g.columns;
    const T* tile = reinterpret_cast<const T*>(tile_bytes) + index * g.tile_columns() * g.tile_elements();
    for (std::size_t left = 0; left < g.tile_columns() * g.tile_width; left += g.tile_width, tile += g.tile_elements()) {
      for (std::size_t down = 0; down < t.faces_down; ++down) {
        if (__builtin_expect(t.whole(down, left + g.tile_width - FACE_WIDTH), 1)) {  // side by side: whole cache lines at once
          const T *near = tile + t.face(down, 0), *far = tile + t.face(down, t.faces_across - 1);
          T* to = target + down * g.face_height * g.columns + left;
          for (std::size_t r = 0; r < g.face_height; ++r, to += g.columns) {
            put_vector(to, load<Segment<SIZE>>(near + r * FACE_WIDTH), past_caches);
            if (t.faces_across == 2) put_vector(to + FACE_WIDTH, load<Segment<SIZE>>(far + r * FACE_WIDTH), past_caches);
            if (!past_caches) __builtin_prefetch(reinterpret_cast<char*>(to) + AHEAD, 1);
          }
          continue;
        }
        for (std::size_t r = 0; r < g.face_height && down * g.face_height + r < t.height; ++r) {
          for (std::size_t c = 0; c < g.tile_width && left + c < g.columns; ++c) {
            const T* face = tile + t.face(down, c / FACE_WIDTH);
            const std::size_t in_face = c % FACE_WIDTH;
            target[(down * g.face_height + r) * g.columns + left + c] =
                face[g.swap_elements ? in_face * g.face_height + r : r * FACE_WIDTH + in_face];
          }
        }
      }
    }
  }
  if (past_caches) end_streaming();
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
