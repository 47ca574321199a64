#pragma once

#include <Python.h>

#include "engine/free_list.hpp"

namespace tessera {

struct FreeListObject {
  PyObject_HEAD
  FreeList* list;
};

PyTypeObject* free_list_type();

}  // namespace tessera
