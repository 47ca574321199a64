// One bind_<room>.cpp per room of tessera; a new one is declared here and called in module.cpp.
//
// Conventions of every bound function. Memory travels as plain integers (tensor.data_ptr()) with the sizes it must
// have: half the cost of an exchange object per call. The Python wrapper next to the caller checks dtype, device,
// contiguity and sizes; the bound function checks what it is told for consistency and throws before it touches memory.
// It releases the GIL, and its last argument is the number of threads.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>

namespace nb = nanobind;

namespace tessera {

using Address = std::uintptr_t;

template <class T>
inline T* pointer(Address address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace tessera

void bind_formats(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_text(nb::module_& module);
