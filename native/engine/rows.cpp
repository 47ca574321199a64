#include "engine/rows.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "parallel.hpp"

namespace tessera {
namespace {

constexpr std::size_t GRAIN = 64 * 1024;

std::size_t rows_per_piece(std::size_t width) { return GRAIN / (width + 1) + 1; }

// A row in fp32 with room for what the last vector writes beyond it.
struct Scratch {
  explicit Scratch(std::size_t width) : memory(new float[width + 80]) {}
  float* get() {  // at the start of a cache line
    const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
    return reinterpret_cast<float*>((address + 63) / 64 * 64);
  }
  std::unique_ptr<float[]> memory;
};

}  // namespace

void run_softmax(const std::uint16_t* in, MaskRows mask, float scale, std::uint16_t* out, std::size_t rows, std::size_t width, int threads) {
  const auto& table = kernels<RowKernels>();
  parallel_for(rows, rows_per_piece(width), threads, [&](std::size_t begin, std::size_t end) {
    Scratch scratch(width);
    for (std::size_t r = begin; r < end; ++r) {
      const std::uint16_t* over = mask.mask ? mask.mask + r / mask.repeat % mask.rows * width : nullptr;
      table.softmax(in + r * width, over, scale, out + r * width, width, scratch.get());
    }
  });
}

void run_norm(NormRow row, std::uint16_t* out, std::size_t rows, std::size_t width, int threads) {
  const auto& table = kernels<RowKernels>();
  parallel_for(rows, rows_per_piece(width), threads, [&](std::size_t begin, std::size_t end) {
    Scratch scratch(width);
    for (std::size_t r = begin; r < end; ++r) {
      NormRow mine = row;
      mine.in += r * width;
      if (mine.residual) mine.residual += r * width;
      table.norm(mine, out + r * width, width, scratch.get());
    }
  });
}

void run_reduce(Reduction kind, const std::uint16_t* in, float scale, float* out, std::size_t rows, std::size_t width, int threads) {
  const auto& table = kernels<RowKernels>();
  const auto reduce = kind == Reduction::sum ? table.sum : kind == Reduction::max ? table.max : table.min;
  parallel_for(rows, rows_per_piece(width), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) out[r] = reduce(in + r * width, width) * scale;
  });
}

void run_arg(Reduction kind, const std::uint16_t* in, std::int64_t* out, std::size_t rows, std::size_t width, int threads) {
  const auto& table = kernels<RowKernels>();
  const auto reduce = kind == Reduction::min ? table.min : table.max;
  parallel_for(rows, rows_per_piece(width), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::uint16_t* row = in + r * width;
      out[r] = static_cast<std::int64_t>(table.find(row, width, reduce(row, width)));
    }
  });
}

void run_cumsum(const std::uint16_t* in, std::uint16_t* out, std::size_t rows, std::size_t width, int threads) {
  const auto& table = kernels<RowKernels>();
  parallel_for(rows, rows_per_piece(width), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) table.cumsum(in + r * width, out + r * width, width);
  });
}

// -- sorting: two passes over the bytes of a key whose unsigned order is the wanted one; equal keys keep their places

namespace {

struct Keyed {
  std::uint16_t key;
  std::uint32_t place;
};

// Both zeros are equal and every NaN is above infinity, as torch orders them.
std::uint16_t key_of(std::uint16_t x, bool descending) {
  if ((x & 0x7fff) > 0x7f80) x = 0x7fff;
  if (x == 0x8000) x = 0;
  const auto ascending = static_cast<std::uint16_t>(x & 0x8000 ? ~x : x | 0x8000);
  return descending ? static_cast<std::uint16_t>(~ascending) : ascending;
}

void radix_pass(const Keyed* from, Keyed* to, std::size_t count, int shift, const std::uint32_t* histogram) {
  std::uint32_t start[256], sum = 0;
  for (int b = 0; b < 256; ++b) start[b] = sum, sum += histogram[b];
  for (std::size_t i = 0; i < count; ++i) to[start[from[i].key >> shift & 0xff]++] = from[i];
}

// Sorts `all[0, count)` with the help of as much room in `other`.
void radix_sort(Keyed* all, Keyed* other, std::size_t count) {
  std::uint32_t low[256] = {}, high[256] = {};
  for (std::size_t i = 0; i < count; ++i) ++low[all[i].key & 0xff], ++high[all[i].key >> 8];
  radix_pass(all, other, count, 0, low);
  radix_pass(other, all, count, 8, high);
}

void sort_row(const std::uint16_t* in, std::size_t width, std::size_t keep, bool descending, Keyed* all, Keyed* other) {
  std::size_t count = 0;
  if (keep * 4 < width) {
    // Most elements cannot be among the first: only those up to the high byte of the last one wanted are sorted.
    std::uint32_t high[256] = {};
    for (std::size_t i = 0; i < width; ++i) ++high[key_of(in[i], descending) >> 8];
    std::size_t seen = 0, last = 0;
    while (last < 255 && (seen += high[last]) < keep) ++last;
    for (std::size_t i = 0; i < width; ++i) {
      const std::uint16_t key = key_of(in[i], descending);
      all[count] = {key, static_cast<std::uint32_t>(i)};
      count += static_cast<std::size_t>(key >> 8 <= last);
    }
  } else {
    for (; count < width; ++count) all[count] = {key_of(in[count], descending), static_cast<std::uint32_t>(count)};
  }
  radix_sort(all, other, count);
}

}  // namespace

void run_sort(const std::uint16_t* in, std::uint16_t* values, std::int64_t* places, std::size_t rows, std::size_t width, std::size_t keep,
              bool descending, int threads) {
  if (keep > width) throw std::invalid_argument("keep: more than there are in a row");
  if (width > std::numeric_limits<std::uint32_t>::max()) throw std::invalid_argument("width: rows of more than 2^32 elements are not sorted here");
  parallel_for(rows, GRAIN / 8 / (width + 1) + 1, threads, [&](std::size_t begin, std::size_t end) {
    const std::unique_ptr<Keyed[]> all(new Keyed[width + 1]), other(new Keyed[width + 1]);
    for (std::size_t r = begin; r < end; ++r) {
      const std::uint16_t* row = in + r * width;
      sort_row(row, width, keep, descending, all.get(), other.get());
      for (std::size_t i = 0; i < keep; ++i) {
        values[r * keep + i] = row[all[i].place];
        places[r * keep + i] = all[i].place;
      }
    }
  });
}

void run_gather(const void* table, std::size_t rows, const std::int64_t* index, std::size_t count, void* out, std::size_t row_bytes, int threads) {
  if (!rows && count) throw std::invalid_argument("rows: a table without rows has nothing to gather");
  parallel_for(count, 64 * 1024 / (row_bytes + 1) + 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const auto last = static_cast<std::int64_t>(rows) - 1;
      const std::int64_t row = index[i] < 0 ? 0 : index[i] > last ? last : index[i];
      std::memcpy(static_cast<char*>(out) + i * row_bytes, static_cast<const char*>(table) + static_cast<std::size_t>(row) * row_bytes, row_bytes);
    }
  });
}

// -- dimensions

namespace {

struct Axis {
  std::size_t size, from, to;  // elements; strides in the input and in the output
};

template <class T>
void transpose_plain(const T* in, std::size_t in_stride, T* out, std::size_t out_stride, std::size_t rows, std::size_t columns) {
  constexpr std::size_t BLOCK = 16;
  for (std::size_t top = 0; top < rows; top += BLOCK)
    for (std::size_t left = 0; left < columns; left += BLOCK)
      for (std::size_t c = left; c < std::min(left + BLOCK, columns); ++c)
        for (std::size_t r = top; r < std::min(top + BLOCK, rows); ++r) out[c * out_stride + r] = in[r * in_stride + c];
}

template <class T>
void permute(const T* in, T* out, const std::vector<Axis>& outer, std::size_t count, const Axis& rows, const Axis& columns, int threads) {
  // Rows are walked along in the output, columns in the input; where the innermost axis stays innermost, rows are copied.
  const bool copies = columns.from == 1 && columns.to == 1;
  const std::size_t strip = copies ? columns.size : std::min<std::size_t>(columns.size, 64);
  const std::size_t strips = (columns.size + strip - 1) / strip;
  parallel_for(count * strips, GRAIN / (rows.size * strip + 1) + 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t piece = begin; piece < end; ++piece) {
      std::size_t index = piece / strips, source = 0, target = 0;
      for (std::size_t i = outer.size(); i-- > 0;) {
        source += index % outer[i].size * outer[i].from;
        target += index % outer[i].size * outer[i].to;
        index /= outer[i].size;
      }
      const std::size_t left = piece % strips * strip, width = std::min(strip, columns.size - left);
      const T* from = in + source + left * columns.from;
      T* to = out + target + left * columns.to;
      if (copies) {
        for (std::size_t r = 0; r < rows.size; ++r) std::memcpy(to + r * rows.to, from + r * rows.from, width * sizeof(T));
      } else if constexpr (sizeof(T) == 2) {
        kernels<RowKernels>().transpose(from, rows.from, to, columns.to, rows.size, width);
      } else {
        transpose_plain(from, rows.from, to, columns.to, rows.size, width);
      }
    }
  });
}

}  // namespace

void run_permute(const void* in, void* out, std::size_t element_size, const Dims& dims, const std::vector<std::int64_t>& order, int threads) {
  const std::size_t rank = dims.size();
  std::vector<std::size_t> from(rank, 1);
  std::vector<bool> seen(rank, false);
  if (order.size() != rank) throw std::invalid_argument("order: must name every dimension");
  for (std::size_t i = rank; i-- > 1;) from[i - 1] = from[i] * static_cast<std::size_t>(dims[i]);
  std::vector<Axis> axes;  // outermost of the output first
  for (std::int64_t which : order) {
    const auto d = static_cast<std::size_t>(which);
    if (which < 0 || d >= rank || seen[d]) throw std::invalid_argument("order: must be a permutation of the dimensions");
    seen[d] = true;
    const auto size = static_cast<std::size_t>(dims[d]);
    if (size == 1) continue;
    if (!axes.empty() && axes.back().from == size * from[d]) {  // neighbours in the input as in the output
      axes.back().size *= size;
      axes.back().from = from[d];
    } else {
      axes.push_back({size, from[d], 0});
    }
  }
  std::size_t to = 1;
  for (std::size_t i = axes.size(); i-- > 0;) axes[i].to = to, to *= axes[i].size;
  if (to == 0) return;
  if (axes.empty()) axes.push_back({1, 1, 1});
  Axis rows = axes.back(), columns = axes.back();
  axes.pop_back();
  if (rows.from == 1) {
    rows = {1, 0, 0};
    // The order of copying is free: read what lies together together.
    std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.from > b.from; });
    if (!axes.empty()) rows = axes.back(), axes.pop_back();
  } else {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].from == 1) {
        columns = axes[i];
        axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
    }
  }
  std::size_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  switch (element_size) {
    case 1: return permute(static_cast<const std::uint8_t*>(in), static_cast<std::uint8_t*>(out), axes, count, rows, columns, threads);
    case 2: return permute(static_cast<const std::uint16_t*>(in), static_cast<std::uint16_t*>(out), axes, count, rows, columns, threads);
    case 4: return permute(static_cast<const std::uint32_t*>(in), static_cast<std::uint32_t*>(out), axes, count, rows, columns, threads);
    case 8: return permute(static_cast<const std::uint64_t*>(in), static_cast<std::uint64_t*>(out), axes, count, rows, columns, threads);
    default: throw std::invalid_argument("element_size: must be 1, 2, 4 or 8");
  }
}

}  // namespace tessera
