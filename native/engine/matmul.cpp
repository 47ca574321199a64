#include "engine/matmul.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/matmul.hpp"
#include "kernels/rows.hpp"
#include "parallel.hpp"

namespace tessera {
namespace {

// Rows up to which a packed matrix is read once, row by row, instead of being expanded.
constexpr std::size_t FEW_ROWS = 3;
constexpr std::size_t TILE = 32, SMALL = 128;

std::size_t tile_bytes(int bits) { return 64 + (bits == 7 ? 1024 : 512); }

struct alignas(64) Line {
  std::uint32_t words[PANEL];
};

using Product = void (*)(LeftStrip, std::size_t, const std::uint32_t*, std::size_t, float*, std::size_t, bool);

Product best_product(const MatmulKernels& table) { return table.product_bf16 && cpu_features().avx512_bf16 ? table.product_bf16 : table.product; }

float widened(std::uint16_t x) {
  const std::uint32_t u = static_cast<std::uint32_t>(x) << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}

struct Output {
  void* data;
  bool is_float;
  const std::uint16_t* bias;
  std::size_t n;

  void put(const MatmulKernels& table, const float* sums, std::size_t row, std::size_t column, std::size_t count) const {
    const std::uint16_t* b = bias ? bias + column : nullptr;
    const auto finish = table.finish_bf16 && cpu_features().avx512_bf16 ? table.finish_bf16 : table.finish;
    if (!is_float) return finish(sums, b, static_cast<std::uint16_t*>(data) + row * n + column, count);
    float* to = static_cast<float*>(data) + row * n + column;
    for (std::size_t i = 0; i < count; ++i) to[i] = b ? sums[i] + widened(b[i]) : sums[i];
  }
};

// The few rows of a decoding step times a packed matrix, a column of tiles after the other.
void few_rows(const MatmulKernels& table, const std::uint16_t* left, const Right& right, const Output& out, std::size_t m, std::size_t k, std::size_t n,
              int threads) {
  const std::size_t down = (k + TILE - 1) / TILE, across = (n + TILE - 1) / TILE, bytes = tile_bytes(right.bits);
  std::vector<float> wide(m * down * TILE, 0.0f);
  for (std::size_t r = 0; r < m; ++r)
    for (std::size_t i = 0; i < k; ++i) wide[r * down * TILE + i] = widened(left[r * k + i]);
  parallel_for(across, across / static_cast<std::size_t>(std::max(threads, 1)) + 1, down * across < 256 ? 1 : threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t j = begin; j < end; ++j) {
      const std::uint8_t* tiles = static_cast<const std::uint8_t*>(right.data) + j * bytes;
      for (std::size_t r = 0; r < m; ++r) {
        float sums[TILE];
        if (right.bits == 7 && table.row_times_tiles_bf16 && cpu_features().avx512_bf16) {
          table.row_times_tiles_bf16(&wide[r * down * TILE], tiles, across * bytes, down, sums);
        } else {
          table.row_times_tiles(&wide[r * down * TILE], tiles, across * bytes, down, right.bits, sums);
        }
        out.put(table, sums, r, j * TILE, std::min(TILE, n - j * TILE));
      }
    }
  });
}

void make_panel(const MatmulKernels& table, const Right& right, std::size_t k, std::size_t n, std::size_t column, Line* panel) {
  if (right.bits) {
    const std::size_t down = (k + TILE - 1) / TILE, across = (n + TILE - 1) / TILE, bytes = tile_bytes(right.bits);
    const auto* tiles = static_cast<const std::uint8_t*>(right.data);
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t j = column / TILE + half;
      for (std::size_t i = 0; i < down; ++i) {
        std::uint32_t* to = panel[i * TILE / 2].words + half * TILE;
        if (j < across) {
          table.expand(tiles + (i * across + j) * bytes, right.bits, to);
        } else {
          for (std::size_t p = 0; p < TILE / 2; ++p) std::memset(to + p * PANEL, 0, TILE * sizeof(std::uint32_t));
        }
      }
    }
    return;
  }
  const auto* values = static_cast<const std::uint16_t*>(right.data);
  const std::size_t columns = std::min(PANEL, n - column);
  if (right.transposed) {
    table.panel_transposed(values + column * k, k, k, columns, panel->words);
  } else {
    table.panel(values + column, n, k, columns, panel->words);
  }
}

}  // namespace

void run_matmul(const std::uint16_t* left, const Right& right, const std::uint16_t* bias, void* out_data, bool out_float, std::size_t m, std::size_t k,
                std::size_t n, int threads) {
  const auto& table = kernels<MatmulKernels>();
  const Output out{out_data, out_float, bias, n};
  if (right.bits && m <= FEW_ROWS) return few_rows(table, left, right, out, m, k, n, threads);
  const Product product = best_product(table);
  // The left side is read as words of two elements; rows of odd length get a zero.
  std::unique_ptr<std::uint16_t[]> even;
  std::size_t stride = k;
  if (k % 2) {
    stride = k + 1;
    even.reset(new std::uint16_t[m * stride]);
    for (std::size_t r = 0; r < m; ++r) {
      std::memcpy(&even[r * stride], left + r * k, k * 2);
      even[r * stride + k] = 0;
    }
    left = even.get();
  }
  const std::size_t pairs = stride / 2, lines = (pairs + TILE / 2 - 1) / (TILE / 2) * (TILE / 2), panels = (n + PANEL - 1) / PANEL;
  const std::size_t strips = (m + STRIP - 1) / STRIP;
  const auto strip = [&](std::size_t s, std::size_t column, const Line* panel) {
    const std::size_t row = s * STRIP, rows = std::min(STRIP, m - row);
    alignas(64) float sums[STRIP * PANEL];
    product({reinterpret_cast<const std::uint32_t*>(left + row * stride), pairs, 1}, rows, panel->words, pairs, sums, PANEL, true);
    for (std::size_t r = 0; r < rows; ++r) out.put(table, sums + r * PANEL, row + r, column, std::min(PANEL, n - column));
  };
  if (k <= SMALL) {  // one panel on the stack at a time
    parallel_for(panels, m * k * PANEL < 1024 * 1024 ? panels : 1, threads, [&](std::size_t begin, std::size_t end) {
      alignas(64) Line panel[SMALL / 2];
      for (std::size_t p = begin; p < end; ++p) {
        make_panel(table, right, k, n, p * PANEL, panel);
        for (std::size_t s = 0; s < strips; ++s) strip(s, p * PANEL, panel);
      }
    });
    return;
  }
  // Two panels at a time stay in the second cache, a strip of the left side in the first.
  const std::size_t together = pairs * sizeof(Line) <= 256 * 1024 ? 2 : 1;
  parallel_for((panels + together - 1) / together, 1, threads, [&](std::size_t begin, std::size_t end) {
    const std::unique_ptr<Line[]> room(new Line[lines * together]);
    for (std::size_t group = begin; group < end; ++group) {
      const std::size_t first = group * together, count = std::min(together, panels - first);
      for (std::size_t i = 0; i < count; ++i) make_panel(table, right, k, n, (first + i) * PANEL, &room[i * lines]);
      for (std::size_t s = 0; s < strips; ++s)
        for (std::size_t i = 0; i < count; ++i) strip(s, (first + i) * PANEL, &room[i * lines]);
    }
  });
}

// -- attention: a few strips of queries at a time against all their keys

void run_attention(const Attention& a, std::uint16_t* out, int threads) {
  const auto& table = kernels<MatmulKernels>();
  const auto& rows_table = kernels<RowKernels>();
  const Product product = best_product(table);
  constexpr std::size_t TOGETHER = 4 * STRIP;
  const std::size_t key_panels = (a.keys + PANEL - 1) / PANEL, value_panels = (a.wide + PANEL - 1) / PANEL;
  const std::size_t pairs = a.width / 2, key_pairs = (a.keys + 1) / 2, even_keys = 2 * key_pairs, room = key_panels * PANEL;
  parallel_for(a.batch * a.heads, 1, threads, [&](std::size_t begin, std::size_t end) {
    const std::unique_ptr<Line[]> keys(new Line[key_panels * pairs]), values(new Line[value_panels * key_pairs]);
    const std::unique_ptr<float[]> scores(new float[TOGETHER * room]);
    const std::unique_ptr<std::uint16_t[]> weights(new std::uint16_t[TOGETHER * even_keys]);
    float sums[TOGETHER];
    for (std::size_t head = begin; head < end; ++head) {
      const std::size_t b = head / a.heads, h = head % a.heads, other = b * a.shared + h / (a.heads / a.shared);
      const std::uint16_t *k = a.k + other * a.keys * a.width, *v = a.v + other * a.keys * a.wide, *q = a.q + head * a.rows * a.width;
      for (std::size_t p = 0; p < key_panels; ++p)
        table.panel_transposed(k + p * PANEL * a.width, a.width, a.width, std::min(PANEL, a.keys - p * PANEL), keys[p * pairs].words);
      for (std::size_t p = 0; p < value_panels; ++p)
        table.panel(v + p * PANEL, a.wide, a.keys, std::min(PANEL, a.wide - p * PANEL), values[p * key_pairs].words);
      const std::uint16_t* mask = a.mask ? a.mask + (b % a.mask_batch * a.mask_heads + h % a.mask_heads) * a.rows * a.keys : nullptr;
      for (std::size_t top = 0; top < a.rows; top += TOGETHER) {
        const std::size_t height = std::min(TOGETHER, a.rows - top);
        const std::size_t seen = a.causal ? std::min(a.keys, top + height) : a.keys;  // keys that any of these rows sees
        const std::size_t seen_panels = (seen + PANEL - 1) / PANEL, seen_pairs = (seen + 1) / 2;
        for (std::size_t p = 0; p < seen_panels; ++p)
          for (std::size_t r = 0; r < height; r += STRIP)
            product({reinterpret_cast<const std::uint32_t*>(q + (top + r) * a.width), pairs, 1}, std::min(STRIP, height - r), keys[p * pairs].words, pairs,
                    scores.get() + r * room + p * PANEL, room, true);
        for (std::size_t r = 0; r < height; ++r) {
          const std::size_t mine = a.causal ? std::min(a.keys, top + r + 1) : a.keys;
          std::uint16_t* w = weights.get() + r * even_keys;
          sums[r] = rows_table.weigh(scores.get() + r * room, mask ? mask + (top + r) * a.keys : nullptr, a.scale, w, mine);
          std::fill(w + mine, w + 2 * seen_pairs, std::uint16_t{0});
        }
        for (std::size_t p = 0; p < value_panels; ++p) {
          const std::size_t columns = std::min(PANEL, a.wide - p * PANEL);
          for (std::size_t r = 0; r < height; r += STRIP) {
            const std::size_t strip = std::min(STRIP, height - r);
            alignas(64) float result[STRIP * PANEL];
            product({reinterpret_cast<const std::uint32_t*>(weights.get() + r * even_keys), key_pairs, 1}, strip, values[p * key_pairs].words, seen_pairs,
                    result, PANEL, true);
            for (std::size_t i = 0; i < strip; ++i) {
              const float share = 1.0f / sums[r + i];
              for (std::size_t c = 0; c < columns; ++c) result[i * PANEL + c] *= share;
              table.finish(result + i * PANEL, nullptr, out + (head * a.rows + top + r + i) * a.wide + p * PANEL, columns);
            }
          }
        }
      }
    }
  });
}

}  // namespace tessera
