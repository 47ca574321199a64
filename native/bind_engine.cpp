// The engine's kernels, bound for tessera.engine.
#include "bindings.hpp"

void bind_engine(nb::module_&) {}
