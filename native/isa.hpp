// Which instruction set the kernels run on.
//
// A kernel family is a plain struct of function pointers. Its source in kernels/ is compiled once per instruction set
// and defines one constant table each time; the active table is looked up per call, so tests can switch paths.
//
//   kernels/softmax.hpp    struct SoftmaxKernels { void (*rows)(const float*, float*, std::size_t); };
//                          TESSERA_DECLARE_KERNELS(SoftmaxKernels)
//   kernels/softmax.cpp    namespace { void rows(...) {...} }              // everything internal: see below
//                          TESSERA_DEFINE_KERNELS(SoftmaxKernels){rows};
//   bind_engine.cpp        tessera::kernels<SoftmaxKernels>().rows(...)
//
// Everything else in a kernel source belongs in an anonymous namespace, and it uses no standard containers: an inline
// function compiled for AVX-512 and merged by the linker with its portable twin would crash an older CPU. For the same
// reason tables are constants, never filled by static constructors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#if defined(__x86_64__) || defined(_M_X64)
#define TESSERA_X86 1
#else
#define TESSERA_X86 0
#endif

namespace tessera {

enum class Isa : std::uint8_t { portable = 0, avx2 = 1, avx512 = 2, amx = 3 };

// The instruction sets this build has kernels for and this CPU (and its kernel) can run, weakest first.
std::vector<Isa> runnable_isas();
const char* isa_name(Isa isa);

// The one in use: the strongest runnable one, unless TESSERA_NATIVE_ISA or set_isa names another.
Isa active_isa();
// Throws std::invalid_argument (unknown name) or std::runtime_error (this CPU cannot run it).
void set_isa(const std::string& name);
// Applies TESSERA_NATIVE_ISA; called once when the module is imported.
void set_isa_from_environment();

// Extensions beyond the base of their level, for a kernel that carries its own __attribute__((target(...))).
struct CpuFeatures {
  bool avx512_bf16, avx512_vnni, avx512_vbmi, avx512_fp16, avx_vnni;
};
const CpuFeatures& cpu_features();

template <class Table>
struct TablesOf;  // specialised by TESSERA_DECLARE_KERNELS

template <class Table>
inline const Table& kernels() {
  return TablesOf<Table>::get(active_isa());
}

}  // namespace tessera

#define TESSERA_JOIN_(a, b) a##_##b
#define TESSERA_JOIN(a, b) TESSERA_JOIN_(a, b)

// At global scope, in the family's header; the struct lives in namespace tessera.
#if TESSERA_X86
#define TESSERA_DECLARE_KERNELS(Table)                                                   \
  namespace tessera {                                                                    \
  extern const Table Table##_portable, Table##_avx2, Table##_avx512, Table##_amx;        \
  template <>                                                                            \
  struct TablesOf<Table> {                                                               \
    static const Table& get(Isa isa) {                                                   \
      switch (isa) {                                                                     \
        case Isa::amx: return Table##_amx;                                               \
        case Isa::avx512: return Table##_avx512;                                         \
        case Isa::avx2: return Table##_avx2;                                             \
        default: return Table##_portable;                                                \
      }                                                                                  \
    }                                                                                    \
  };                                                                                     \
  }
#else
#define TESSERA_DECLARE_KERNELS(Table)                                                   \
  namespace tessera {                                                                    \
  extern const Table Table##_portable;                                                   \
  template <>                                                                            \
  struct TablesOf<Table> {                                                               \
    static const Table& get(Isa) { return Table##_portable; }                            \
  };                                                                                     \
  }
#endif

// At global scope, at the end of the family's source.
#define TESSERA_DEFINE_KERNELS(Table) const tessera::Table tessera::TESSERA_JOIN(Table, TESSERA_ISA)
