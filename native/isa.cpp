#include "isa.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#if TESSERA_X86
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace tessera {
namespace {

constexpr const char* NAMES[] = {"portable", "avx2", "avx512", "amx"};

struct Cpu {
  bool avx2 = false, avx512 = false, amx = false;
  CpuFeatures extra{};
};

#if TESSERA_X86
struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(unsigned leaf, unsigned sub) {
  Leaf r;
  if (!__get_cpuid_count(leaf, sub, &r.eax, &r.ebx, &r.ecx, &r.edx)) return Leaf{};
  return r;
}

bool bit(unsigned word, int index) { return (word >> index) & 1u; }

// The registers that the operating system saves on a context switch (XCR0).
std::uint64_t saved_registers() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

// Linux hands out AMX tile registers only to processes that ask for them.
bool request_tile_registers() {
#if defined(__linux__)
  constexpr long ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18;
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
  return false;
#endif
}

Cpu detect() {
  Cpu cpu;
  const Leaf one = cpuid(1, 0);
  if (!bit(one.ecx, 27)) return cpu;  // OSXSAVE: without it xgetbv itself is illegal
  const std::uint64_t saved = saved_registers();
  const Leaf seven = cpuid(7, 0), seven1 = seven.eax >= 1 ? cpuid(7, 1) : Leaf{}, extended = cpuid(0x80000001u, 0);
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6, tiles = (saved & 0x60000) == 0x60000;

  cpu.avx2 = ymm && bit(one.ecx, 12) /* fma */ && bit(one.ecx, 28) /* avx */ && bit(one.ecx, 29) /* f16c */ &&
             bit(one.ecx, 23) /* popcnt */ && bit(seven.ebx, 3) /* bmi1 */ && bit(seven.ebx, 5) /* avx2 */ &&
             bit(seven.ebx, 8) /* bmi2 */ && bit(extended.ecx, 5) /* lzcnt */;
  cpu.avx512 = cpu.avx2 && zmm && bit(seven.ebx, 16) /* f */ && bit(seven.ebx, 17) /* dq */ &&
               bit(seven.ebx, 28) /* cd */ && bit(seven.ebx, 30) /* bw */ && bit(seven.ebx, 31) /* vl */;
  if (cpu.avx512) {
    cpu.extra.avx512_vbmi = bit(seven.ecx, 1);
    cpu.extra.avx512_vnni = bit(seven.ecx, 11);
    cpu.extra.avx512_fp16 = bit(seven.edx, 23);
    cpu.extra.avx512_bf16 = bit(seven1.eax, 5);
  }
  cpu.extra.avx_vnni = cpu.avx2 && bit(seven1.eax, 4);
  cpu.amx = cpu.avx512 && cpu.extra.avx512_bf16 && cpu.extra.avx512_vnni && tiles && bit(seven.edx, 22) /* amx-bf16 */ &&
            bit(seven.edx, 24) /* amx-tile */ && bit(seven.edx, 25) /* amx-int8 */ && request_tile_registers();
  return cpu;
}
#else
Cpu detect() { return Cpu{}; }
#endif

const Cpu& cpu() {
  static const Cpu detected = detect();
  return detected;
}

bool runnable(Isa isa) {
  switch (isa) {
    case Isa::amx: return cpu().amx;
    case Isa::avx512: return cpu().avx512;
    case Isa::avx2: return cpu().avx2;
    default: return true;
  }
}

Isa strongest() { return runnable_isas().back(); }

std::atomic<Isa>& current() {
  static std::atomic<Isa> isa{strongest()};
  return isa;
}

}  // namespace

std::vector<Isa> runnable_isas() {
  std::vector<Isa> found;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::amx})
    if (runnable(isa)) found.push_back(isa);
  return found;
}

const char* isa_name(Isa isa) { return NAMES[static_cast<int>(isa)]; }

Isa active_isa() { return current().load(std::memory_order_relaxed); }

void set_isa(const std::string& name) {
  for (int i = 0; i < 4; ++i) {
    if (name != NAMES[i]) continue;
    if (!runnable(static_cast<Isa>(i))) {
      throw std::runtime_error("native instruction set \"" + name + "\": this CPU cannot run it; the strongest it can run is \"" +
                               isa_name(strongest()) + "\"");
    }
    current().store(static_cast<Isa>(i), std::memory_order_relaxed);
    return;
  }
  throw std::invalid_argument("native instruction set \"" + name + "\": must be portable, avx2, avx512 or amx");
}

void set_isa_from_environment() {
  const char* name = std::getenv("TESSERA_NATIVE_ISA");
  if (name == nullptr || *name == '\0') return;
  try {
    set_isa(name);
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("TESSERA_NATIVE_ISA: ") + error.what());
  }
}

const CpuFeatures& cpu_features() { return cpu().extra; }

}  // namespace tessera
