// Numbers as JSON text: nested lists of a contiguous tensor, for operation traces. Written as Python's own encoder would
// read them back: the shortest digits that give the same double, and the strings "NaN", "Infinity", "-Infinity".
#include <nanobind/stl/vector.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bindings.hpp"

namespace {

using namespace tessera;

constexpr std::size_t WIDEST = 40;  // bytes of the longest number, its comma, and what a wide copy may touch

char* put(char* at, const char* text, std::size_t size) {
  std::memcpy(at, text, size);
  return at + size;
}

char* put_double(char* at, double value) {
  if (!std::isfinite(value)) {
    if (std::isnan(value)) return put(at, "\"NaN\"", 5);
    return value > 0 ? put(at, "\"Infinity\"", 10) : put(at, "\"-Infinity\"", 11);
  }
  char* end = std::to_chars(at, at + WIDEST, value).ptr;
  for (char* c = at; c != end; ++c)
    if (*c == '.' || *c == 'e') return end;
  return put(end, ".0", 2);
}

// -- float32. Its value as a double has up to 17 significant digits, and finding the fewest costs more than writing them all: a float is
// m * 2^e with m of 24 bits, so m times a fixed-point constant for e gives all 17 digits at once.

using Wide = unsigned __int128;

struct Scale {
  Wide factor;  // 2^e * 10^shift, with 64 bits behind the point
  int shift;    // chosen so that m * factor lies between 10^16 and 2 * 10^17
};

// Unsigned numbers of 320 bits, for making the table.
struct Big {
  std::uint32_t word[10] = {};
  void multiply(std::uint32_t by) {
    std::uint64_t carry = 0;
    for (auto& w : word) carry += static_cast<std::uint64_t>(w) * by, w = static_cast<std::uint32_t>(carry), carry >>= 32;
  }
  void divide(std::uint32_t by) {
    std::uint64_t rest = 0;
    for (int i = 9; i >= 0; --i) rest = rest << 32 | word[i], word[i] = static_cast<std::uint32_t>(rest / by), rest %= by;
  }
  void set_bit(int bit) { word[bit / 32] |= 1u << bit % 32; }
  Wide from_bit(int bit) const {  // 128 bits from there on; a negative bit shifts left
    Wide found = 0;
    for (int i = 127; i >= 0; --i) {
      const int at = bit + i;
      found = found << 1 | (at >= 0 && at < 320 ? word[at / 32] >> at % 32 & 1 : 0);
    }
    return found;
  }
};

struct Scales {
  Scale of[255];
  Scales() {
    for (int biased = 1; biased < 255; ++biased) {
      const int exponent = biased - 127;  // of the smallest value with this field
      const int shift = 16 - static_cast<int>(std::floor(exponent * 0.30102999566398120));
      Big big;
      if (shift >= 0) {
        big.set_bit(0);
        for (int i = 0; i < shift; ++i) big.multiply(10);
        of[biased] = {big.from_bit(-(biased - 150 + 64)), shift};
      } else {
        big.set_bit(biased - 150 + 64 + 100);
        for (int i = 0; i < -shift; ++i) big.divide(10);
        of[biased] = {big.from_bit(100), shift};
      }
    }
  }
};

struct Pairs {
  char text[200];
  constexpr Pairs() : text() {
    for (int i = 0; i < 100; ++i) text[2 * i] = static_cast<char>('0' + i / 10), text[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
};
constexpr Pairs PAIRS;

void put_eight(char* at, std::uint32_t value) {
  const std::uint32_t upper = value / 10000, lower = value % 10000;
  std::memcpy(at, PAIRS.text + 2 * (upper / 100), 2);
  std::memcpy(at + 2, PAIRS.text + 2 * (upper % 100), 2);
  std::memcpy(at + 4, PAIRS.text + 2 * (lower / 100), 2);
  std::memcpy(at + 6, PAIRS.text + 2 * (lower % 100), 2);
}

char* put_float(char* at, float value) {
  static const Scales scales;
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const std::uint32_t biased = bits >> 23 & 0xff;
  if (biased == 0 || biased == 255) return put_double(at, static_cast<double>(value));  // zero, subnormal, infinite, no number
  if (bits >> 31) *at++ = '-';
  const Scale& scale = scales.of[biased];
  const Wide product = scale.factor * ((bits & 0x7fffff) | 0x800000) + (Wide{1} << 63);
  std::uint64_t number = static_cast<std::uint64_t>(product >> 64);
  int point = 17 - scale.shift;  // digits before the point
  if (number >= 100000000000000000u) number = (number + 5) / 10, ++point;
  char digits[17];
  const std::uint64_t upper = number / 100000000u;
  digits[0] = static_cast<char>('0' + upper / 100000000u);
  put_eight(digits + 1, static_cast<std::uint32_t>(upper % 100000000u));
  put_eight(digits + 9, static_cast<std::uint32_t>(number % 100000000u));
  int used = 17;
  while (used > 1 && digits[used - 1] == '0') --used;
  if (point > 16 || point < -3) {
    *at++ = digits[0];
    if (used > 1) *at++ = '.', at = put(at, digits + 1, used - 1);
    *at++ = 'e';
    return std::to_chars(at, at + WIDEST, point - 1).ptr;
  }
  if (point <= 0) {  // copies of a fixed width are one instruction; the buffer has room for what is too much
    std::memcpy(at, "0.0000", 6);
    at += 2 - point;
    std::memcpy(at, digits, 17);
    return at + used;
  }
  if (used <= point) {
    at = put(at, digits, used);
    for (int i = used; i < point; ++i) *at++ = '0';
    return put(at, ".0", 2);
  }
  at = put(at, digits, point);
  *at++ = '.';
  return put(at, digits + point, used - point);
}

struct Bfloat16 {
  std::uint16_t bits;
};

// Every bfloat16 is written once; after that a number is a copy.
struct Table {
  struct Entry {
    char text[WIDEST - 1];
    std::uint8_t size;
  };
  std::unique_ptr<Entry[]> entries{new Entry[65536]};
  Table() {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const std::uint32_t wide = bits << 16;
      float value;
      std::memcpy(&value, &wide, 4);
      Entry& entry = entries[bits];
      std::memset(entry.text, 0, sizeof entry.text);
      entry.size = static_cast<std::uint8_t>(put_double(entry.text, value) - entry.text);
    }
  }
};

template <class T>
char* put_value(char* at, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? put(at, "true", 4) : put(at, "false", 5);
  } else if constexpr (std::is_same_v<T, float>) {
    return put_float(at, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return put_double(at, static_cast<double>(value));
  } else {
    return std::to_chars(at, at + WIDEST, value).ptr;
  }
}

template <class T>
char* put_list(char* at, const T*& values, const std::size_t* shape, std::size_t rank) {
  if (rank == 0) return put_value(at, *values++);
  *at++ = '[';
  for (std::size_t i = 0; i < shape[0]; ++i) {
    if (i) *at++ = ',';
    at = put_list(at, values, shape + 1, rank - 1);
  }
  *at++ = ']';
  return at;
}

template <>
char* put_list<Bfloat16>(char* at, const Bfloat16*& values, const std::size_t* shape, std::size_t rank) {
  static const Table table;
  if (rank == 0) {
    const Table::Entry& entry = table.entries[(values++)->bits];
    return put(at, entry.text, entry.size);
  }
  *at++ = '[';
  if (rank == 1) {
    for (std::size_t i = 0; i < shape[0]; ++i) {
      if (i) *at++ = ',';
      const Table::Entry& entry = table.entries[values[i].bits];
      std::memcpy(at, &entry, sizeof entry);
      at += entry.size;
    }
    values += shape[0];
  } else {
    for (std::size_t i = 0; i < shape[0]; ++i) {
      if (i) *at++ = ',';
      at = put_list(at, values, shape + 1, rank - 1);
    }
  }
  *at++ = ']';
  return at;
}

template <class T>
std::size_t write(char* out, Address address, const std::vector<std::size_t>& shape) {
  const T* values = pointer<const T>(address);
  return static_cast<std::size_t>(put_list<T>(out, values, shape.data(), shape.size()) - out);
}

using Writer = std::size_t (*)(char*, Address, const std::vector<std::size_t>&);

// In the order of ttnn.tracing.text's table of kinds.
constexpr Writer WRITERS[] = {
    write<Bfloat16>,     write<float>,        write<double>,       write<bool>,          write<std::uint8_t>,  write<std::int8_t>,
    write<std::int16_t>, write<std::int32_t>, write<std::int64_t>, write<std::uint16_t>, write<std::uint32_t>, write<std::uint64_t>,
};

nb::bytes json_values(Address address, int kind, const std::vector<std::size_t>& shape) {
  if (kind < 0 || kind >= static_cast<int>(std::size(WRITERS))) throw std::invalid_argument("kind must be 0..11");
  std::size_t count = 1, brackets = 2, lists = 1;
  for (std::size_t extent : shape) {
    brackets += 3 * lists;
    lists *= extent;
    count *= extent;
  }
  std::unique_ptr<char[]> out(new char[count * WIDEST + brackets + WIDEST]);
  std::size_t size;
  {
    nb::gil_scoped_release release;
    size = WRITERS[kind](out.get(), address, shape);
  }
  return nb::bytes(out.get(), size);
}

}  // namespace

void bind_text(nb::module_& module) {
  module.def("json_values", &json_values, nb::arg("address"), nb::arg("kind"), nb::arg("shape"),
             "A contiguous tensor as nested JSON lists.");
}
