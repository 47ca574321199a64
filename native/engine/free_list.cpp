// FreeList as a Python type. A plain CPython type, so that the launcher reaches the C++ object without a detour.
#include "engine/free_list_type.hpp"

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

FreeList& of(PyObject* self) { return *reinterpret_cast<FreeListObject*>(self)->list; }

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"base", "size", nullptr};
  unsigned long long base, size;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KK", const_cast<char**>(names), &base, &size)) return nullptr;
  auto* self = reinterpret_cast<FreeListObject*>(type->tp_alloc(type, 0));
  if (self) self->list = new FreeList(base, size);
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (reinterpret_cast<FreeListObject*>(self)->list)
    for (auto& block : of(self).live) Py_VISIT(static_cast<PyObject*>(block.second.owner));
  return 0;
}

int clear(PyObject* self) {
  if (!reinterpret_cast<FreeListObject*>(self)->list) return 0;
  std::vector<PyObject*> owners;
  for (auto& block : of(self).live)
    if (block.second.owner) owners.push_back(static_cast<PyObject*>(block.second.owner)), block.second.owner = nullptr;
  for (PyObject* owner : owners) Py_DECREF(owner);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  delete reinterpret_cast<FreeListObject*>(self)->list;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* number(std::uint64_t value) { return PyLong_FromUnsignedLongLong(value); }

PyObject* take(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"size", "top_down", nullptr};
  unsigned long long size;
  int top_down;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "K$p", const_cast<char**>(names), &size, &top_down)) return nullptr;
  std::uint64_t address;
  if (!of(self).take(size, top_down != 0, address)) Py_RETURN_NONE;
  return number(address);
}

PyObject* give(PyObject* self, PyObject* address) {
  const unsigned long long at = PyLong_AsUnsignedLongLong(address);
  if (PyErr_Occurred()) return nullptr;
  FreeList::Live was;
  if (!of(self).give(at, was)) {
    PyErr_SetObject(PyExc_KeyError, address);
    return nullptr;
  }
  Py_XDECREF(static_cast<PyObject*>(was.owner));
  return number(was.size);
}

PyObject* file(PyObject* self, PyObject* args) {
  unsigned long long address;
  PyObject* owner;
  if (!PyArg_ParseTuple(args, "KO", &address, &owner)) return nullptr;
  const auto found = of(self).live.find(address);
  if (found == of(self).live.end()) {
    PyErr_Format(PyExc_KeyError, "no block lives at %llu", address);
    return nullptr;
  }
  Py_INCREF(owner);
  Py_XDECREF(static_cast<PyObject*>(found->second.owner));
  found->second.owner = owner;
  Py_RETURN_NONE;
}

PyObject* owner_of(PyObject* self, PyObject* address) {
  const unsigned long long at = PyLong_AsUnsignedLongLong(address);
  if (PyErr_Occurred()) return nullptr;
  const auto found = of(self).live.find(at);
  if (found == of(self).live.end() || !found->second.owner) Py_RETURN_NONE;
  return Py_NewRef(static_cast<PyObject*>(found->second.owner));
}

PyObject* shrink_to(PyObject* self, PyObject* base) {
  const unsigned long long at = PyLong_AsUnsignedLongLong(base);
  if (PyErr_Occurred()) return nullptr;
  return PyBool_FromLong(of(self).shrink_to(at));
}

PyObject* largest_free(PyObject* self, PyObject*) { return number(of(self).largest()); }

PyObject* free_blocks(PyObject* self, PyObject*) {
  PyObject* found = PyList_New(0);
  for (const auto& hole : of(self).holes()) {
    PyObject* item = Py_BuildValue("KK", hole.first, hole.second - hole.first);
    if (!found || !item || PyList_Append(found, item) < 0) {
      Py_XDECREF(item);
      Py_XDECREF(found);
      return nullptr;
    }
    Py_DECREF(item);
  }
  return found;
}

PyObject* blocks(PyObject* self, PyObject*) {
  struct Block {
    unsigned long long address, size;
    bool taken;
  };
  std::vector<Block> all;
  for (const auto& block : of(self).live) all.push_back({block.first, block.second.size, true});
  for (const auto& hole : of(self).holes()) all.push_back({hole.first, hole.second - hole.first, false});
  std::sort(all.begin(), all.end(), [](const Block& a, const Block& b) { return a.address < b.address; });
  PyObject* found = PyList_New(static_cast<Py_ssize_t>(all.size()));
  for (std::size_t i = 0; found && i < all.size(); ++i) {
    PyObject* item = Py_BuildValue("KKO", all[i].address, all[i].size, all[i].taken ? Py_True : Py_False);
    if (!item) {
      Py_CLEAR(found);
      break;
    }
    PyList_SET_ITEM(found, static_cast<Py_ssize_t>(i), item);
  }
  return found;
}

// address -> size, or address -> owner for those that were filed.
template <bool OWNERS>
PyObject* as_dict(PyObject* self, void*) {
  PyObject* found = PyDict_New();
  for (const auto& block : of(self).live) {
    if (OWNERS && !block.second.owner) continue;
    PyObject *key = number(block.first), *value = OWNERS ? static_cast<PyObject*>(block.second.owner) : number(block.second.size);
    if (OWNERS) Py_XINCREF(value);
    const bool failed = !key || !value || !found || PyDict_SetItem(found, key, value) < 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    if (failed) {
      Py_CLEAR(found);
      break;
    }
  }
  return found;
}

PyObject* get_count(PyObject* self, void*) { return number(of(self).live.size()); }
PyObject* get_base(PyObject* self, void*) { return number(of(self).base); }
PyObject* get_size(PyObject* self, void*) { return number(of(self).size); }
PyObject* get_allocated(PyObject* self, void*) { return number(of(self).allocated); }
PyObject* get_free(PyObject* self, void*) { return number(of(self).size - of(self).allocated); }
PyObject* get_peak(PyObject* self, void*) { return number(of(self).peak); }
int set_peak(PyObject* self, PyObject* value, void*) {
  const unsigned long long peak = value ? PyLong_AsUnsignedLongLong(value) : 0;
  if (PyErr_Occurred()) return -1;
  of(self).peak = peak;
  return 0;
}

PyMethodDef METHODS[] = {
    {"take", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take)), METH_VARARGS | METH_KEYWORDS,
     "The address of a new block, or None when no free block is large enough."},
    {"give", give, METH_O, "Frees the block at an address and returns its size; KeyError if no block lives there."},
    {"file", file, METH_VARARGS, "Keeps an object with a live block until it is freed."},
    {"owner_of", owner_of, METH_O, "What was filed with the block at an address, or None."},
    {"shrink_to", shrink_to, METH_O, "Moves the lower end of the range; False if a live block is in the way."},
    {"largest_free", largest_free, METH_NOARGS, "Size of the largest free block."},
    {"free_blocks", free_blocks, METH_NOARGS, "(address, size) of each free block, in order of address."},
    {"blocks", blocks, METH_NOARGS, "(address, size, allocated) of every block, in order of address."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef PROPERTIES[] = {{"base", get_base, nullptr, nullptr, nullptr},
                            {"size", get_size, nullptr, nullptr, nullptr},
                            {"allocated", get_allocated, nullptr, nullptr, nullptr},
                            {"free", get_free, nullptr, nullptr, nullptr},
                            {"peak", get_peak, set_peak, nullptr, nullptr},
                            {"count", get_count, nullptr, "How many blocks live.", nullptr},
                            {"live", as_dict<false>, nullptr, "address -> size of each live block", nullptr},
                            {"owners", as_dict<true>, nullptr, "address -> what was filed there", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot SLOTS[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_methods, METHODS},
                       {Py_tp_getset, PROPERTIES},
                       {Py_tp_doc, const_cast<char*>("The free and the live blocks of the address range [base, base + size).")},
                       {0, nullptr}};

PyType_Spec SPEC = {"tessera._native.FreeList", sizeof(FreeListObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, SLOTS};

}  // namespace

PyTypeObject* free_list_type() {
  static auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&SPEC));
  return type;
}

}  // namespace tessera
