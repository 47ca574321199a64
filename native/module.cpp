#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "isa.hpp"

NB_MODULE(_native, module) {
  module.doc() = "C++ kernels of tessera.formats and tessera.engine.";
  tessera::set_isa_from_environment();

  module.def("isa", [] { return std::string(tessera::isa_name(tessera::active_isa())); }, "The instruction set in use.");
  module.def("runnable_isas", [] {
    std::vector<std::string> names;
    for (tessera::Isa isa : tessera::runnable_isas()) names.emplace_back(tessera::isa_name(isa));
    return names;
  }, "The instruction sets this CPU can run, weakest first.");
  module.def("set_isa", [](const std::string& name) { tessera::set_isa(name); }, nb::arg("name"),
             "Choose the instruction set of all later calls (for tests and benchmarks).");
  module.def("cpu_features", [] {
    const tessera::CpuFeatures& f = tessera::cpu_features();
    nb::dict result;
    result["avx512_bf16"] = f.avx512_bf16, result["avx512_vnni"] = f.avx512_vnni, result["avx512_vbmi"] = f.avx512_vbmi;
    result["avx512_fp16"] = f.avx512_fp16, result["avx_vnni"] = f.avx_vnni;
    return result;
  }, "Extensions of this CPU beyond the base of its instruction set.");

  bind_formats(module);
  bind_engine(module);
  bind_text(module);
}
