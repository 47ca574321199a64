// The fast way through an operation: key, plan, room, kernel, tensor, without a line of Python between them.
//
// What is fast here is only what happens when a call was seen before (decorators.Operation says when a call is remembered). Everything
// else goes back to Python, which also holds the same steps for when this module was not built.
#pragma once

#include <Python.h>

namespace tessera {

// Adds the types Caller, Owner, Gate, Plan and FreeList and the function `equip` to the module; -1 with an exception set on failure.
int add_launcher(PyObject* module);

}  // namespace tessera
