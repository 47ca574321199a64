#include "engine/launcher.hpp"

#include <structmember.h>
#include <time.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "engine/elementwise.hpp"
#include "engine/free_list_type.hpp"
#include "engine/matmul.hpp"

namespace tessera {
namespace {

// A reference that is given back.
class Ref {
 public:
  Ref(PyObject* object = nullptr) : object_(object) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }
  operator PyObject*() const { return object_; }
  void hold(PyObject* object) {
    Py_XDECREF(object_);
    object_ = object;
  }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  PyObject* object_;
};

// -- what Python told us: classes, where their slots lie, and a few objects

using Slot = Py_ssize_t;

struct World {
  PyTypeObject *tensor = nullptr, *buffer = nullptr, *allocation = nullptr;
  PyObject *observers = nullptr, *value_types = nullptr, *recording = nullptr, *tensor_ids = nullptr, *buffer_ids = nullptr;
  PyObject *empty_like = nullptr, *rounded = nullptr, *threads = nullptr, *operand = nullptr;
  Slot t_spec, t_buffer, t_topology, t_id;
  Slot b_spec, b_values, b_images, b_device, b_allocation, b_allocated, b_borrowed, b_id;
  Slot a_plan, a_region, a_address, a_live, a_owner;
  long recordings = 0;
} world;

struct Names {
  PyObject *missed, *watched, *gate, *launches, *data_ptr, *size_per_bank, *release, *part, *append, *memory, *allocate, *is_contiguous;
} names;

PyObject*& slot(PyObject* object, Slot offset) { return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset); }

void fill(PyObject* object, Slot offset, PyObject* value) {  // of a new object: steals the reference
  slot(object, offset) = value;
}

PyObject* share(PyObject* object) {
  Py_INCREF(object);
  return object;
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// -- Gate: what a device lets through, and its counters

struct GateObject {
  PyObject_HEAD
  PyObject *plans, *bank_plans, *operations;
  char ready;  // open, not capturing a trace, one chip
  long long alive;
  double seconds;
};

int gate_init(PyObject* self, PyObject* args, PyObject*) {
  auto* gate = reinterpret_cast<GateObject*>(self);
  PyObject *plans, *bank_plans, *operations;
  if (!PyArg_ParseTuple(args, "O!O!O!", &PyDict_Type, &plans, &PyDict_Type, &bank_plans, &PyDict_Type, &operations)) return -1;
  gate->plans = share(plans);
  gate->bank_plans = share(bank_plans);
  gate->operations = share(operations);
  return 0;
}
int gate_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* gate = reinterpret_cast<GateObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(gate->plans);
  Py_VISIT(gate->bank_plans);
  Py_VISIT(gate->operations);
  return 0;
}
int gate_clear(PyObject* self) {
  auto* gate = reinterpret_cast<GateObject*>(self);
  Py_CLEAR(gate->plans);
  Py_CLEAR(gate->bank_plans);
  Py_CLEAR(gate->operations);
  return 0;
}
template <int (*CLEAR)(PyObject*)>
void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  CLEAR(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef GATE_MEMBERS[] = {{"ready", T_BOOL, offsetof(GateObject, ready), 0, "Remembered calls may go straight through."},
                              {"alive", T_LONGLONG, offsetof(GateObject, alive), 0, "Buffers that have room on the device."},
                              {"seconds", T_DOUBLE, offsetof(GateObject, seconds), 0, "Time spent computing."},
                              {"operations", T_OBJECT, offsetof(GateObject, operations), READONLY, "How often each device operation ran."},
                              {nullptr, 0, 0, 0, nullptr}};

bool count(GateObject* gate, PyObject* name, double seconds) {
  gate->seconds += seconds;
  PyObject* before = PyDict_GetItemWithError(gate->operations, name);
  if (!before && PyErr_Occurred()) return false;
  Ref after(PyLong_FromLongLong(before ? PyLong_AsLongLong(before) + 1 : 1));
  return after && PyDict_SetItem(gate->operations, name, after) == 0;
}

// -- Plan: a whole call that is one launch

enum class Direct : char { none, unary, binary, scalar, matmul };

struct PlanObject {
  PyObject_HEAD
  PyObject *name, *compute, *attributes, *inputs, *spec;
  Direct direct;
  int step;
  bool reflected;
  float number;
  std::size_t volume, m, k, n;
  PyObject* like;        // what the result of a product looks like
  unsigned long images;  // bit i: input i may be given as tiles
};

int plan_init(PyObject* self, PyObject* args, PyObject*) {
  auto* plan = reinterpret_cast<PlanObject*>(self);
  PyObject *name, *compute, *attributes, *inputs, *spec, *direct, *images;
  if (!PyArg_ParseTuple(args, "OOO!O!OOO!", &name, &compute, &PyDict_Type, &attributes, &PyTuple_Type, &inputs, &spec, &direct, &PyTuple_Type, &images))
    return -1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(images); ++i) plan->images |= 1ul << PyLong_AsLong(PyTuple_GET_ITEM(images, i));
  if (direct != Py_None && PyTuple_GET_SIZE(direct) == 5 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(direct, 0), "matmul") == 0) {
    PyObject *kind, *like;
    unsigned long long m, k, n;
    if (!PyArg_ParseTuple(direct, "OKKKO", &kind, &m, &k, &n, &like)) return -1;
    if (PyTuple_GET_SIZE(inputs) != 2) {
      PyErr_SetString(PyExc_ValueError, "direct: a product has two inputs");
      return -1;
    }
    plan->direct = Direct::matmul;
    plan->m = m, plan->k = k, plan->n = n;
    plan->like = share(like);
  } else if (direct != Py_None) {
    const char* kind;
    int step, reflected = 0;
    float number = 0.0f;
    unsigned long long volume;
    if (!PyArg_ParseTuple(direct, "sKi|fp", &kind, &volume, &step, &number, &reflected)) return -1;
    const std::string what = kind;
    const Py_ssize_t wanted = what == "binary" ? 2 : 1;
    const int most = what == "unary" ? static_cast<int>(Unary::count) : static_cast<int>(Binary::count);
    if ((what != "unary" && what != "binary" && what != "scalar") || PyTuple_GET_SIZE(inputs) != wanted || step < 0 || step >= most) {
      PyErr_SetString(PyExc_ValueError, "direct: not a kernel of the launcher, or not for these inputs");
      return -1;
    }
    plan->direct = what == "unary" ? Direct::unary : what == "binary" ? Direct::binary : Direct::scalar;
    plan->step = step;
    plan->reflected = reflected != 0;
    plan->number = number;
    plan->volume = volume;
  }
  plan->name = share(name);
  plan->compute = share(compute);
  plan->attributes = share(attributes);
  plan->inputs = share(inputs);
  plan->spec = share(spec);
  return 0;
}
int plan_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* plan = reinterpret_cast<PlanObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(plan->compute);
  Py_VISIT(plan->attributes);
  Py_VISIT(plan->inputs);
  Py_VISIT(plan->spec);
  Py_VISIT(plan->like);
  return 0;
}
int plan_clear(PyObject* self) {
  auto* plan = reinterpret_cast<PlanObject*>(self);
  Py_CLEAR(plan->name);
  Py_CLEAR(plan->compute);
  Py_CLEAR(plan->attributes);
  Py_CLEAR(plan->inputs);
  Py_CLEAR(plan->spec);
  Py_CLEAR(plan->like);
  return 0;
}
PyMemberDef PLAN_MEMBERS[] = {{"name", T_OBJECT, offsetof(PlanObject, name), READONLY, nullptr},
                              {"compute", T_OBJECT, offsetof(PlanObject, compute), READONLY, nullptr},
                              {"attributes", T_OBJECT, offsetof(PlanObject, attributes), READONLY, nullptr},
                              {"inputs", T_OBJECT, offsetof(PlanObject, inputs), READONLY, nullptr},
                              {"spec", T_OBJECT, offsetof(PlanObject, spec), READONLY, nullptr},
                              {nullptr, 0, 0, 0, nullptr}};
PyTypeObject* plan_type = nullptr;
PyTypeObject* gate_type = nullptr;

// -- room: DeviceMemory.allocate for a spec whose pages are known

// A new Allocation, or null: with an exception, or without one where Python has to decide.
PyObject* take_room(GateObject* gate, PyObject* spec) {
  PyObject* known = PyDict_GetItemWithError(gate->bank_plans, spec);
  if (!known || !PyTuple_CheckExact(known) || PyTuple_GET_SIZE(known) != 3) return nullptr;
  PyObject *bank_plan = PyTuple_GET_ITEM(known, 0), *region = PyTuple_GET_ITEM(known, 1);
  if (Py_TYPE(region) != free_list_type()) return nullptr;
  Ref size(PyObject_GetAttr(bank_plan, names.size_per_bank));
  if (!size) return nullptr;
  const unsigned long long wanted = PyLong_AsUnsignedLongLong(size);
  if (!wanted) return nullptr;
  FreeList& list = *reinterpret_cast<FreeListObject*>(region)->list;
  std::uint64_t address;
  if (!list.take(wanted, PyTuple_GET_ITEM(known, 2) == Py_True, address)) return nullptr;  // Python says why
  PyObject* made = world.allocation->tp_alloc(world.allocation, 0);
  if (!made) return nullptr;
  fill(made, world.a_plan, share(bank_plan));
  fill(made, world.a_region, share(region));
  fill(made, world.a_address, PyLong_FromUnsignedLongLong(address));
  fill(made, world.a_live, share(Py_True));
  fill(made, world.a_owner, share(Py_None));
  list.live.find(address)->second.owner = share(made);
  return made;
}

void give_room(PyObject* allocation) {
  PyObject* region = slot(allocation, world.a_region);
  PyObject* live = slot(allocation, world.a_live);
  slot(allocation, world.a_live) = share(Py_False);
  Py_DECREF(live);
  FreeList::Live was{0, nullptr};
  reinterpret_cast<FreeListObject*>(region)->list->give(PyLong_AsUnsignedLongLong(slot(allocation, world.a_address)), was);
  Py_XDECREF(static_cast<PyObject*>(was.owner));
}

// -- Owner: the base of Buffer, which gives its room back when nobody holds it any more

bool quiet() { return PyList_GET_SIZE(world.observers) == 0; }

void owner_finalize(PyObject* self) {
  if (!world.buffer || !PyObject_TypeCheck(self, world.buffer)) return;
  PyObject *allocation = slot(self, world.b_allocation), *device = slot(self, world.b_device);
  if (!allocation || allocation == Py_None || !device || device == Py_None || slot(self, world.b_allocated) != Py_True) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Ref gate(PyObject_GetAttr(device, names.gate));
  if (gate && Py_TYPE(gate) == gate_type && reinterpret_cast<GateObject*>(static_cast<PyObject*>(gate))->ready && quiet() &&
      Py_TYPE(allocation) == world.allocation && Py_TYPE(slot(allocation, world.a_region)) == free_list_type() &&
      slot(allocation, world.a_live) == Py_True) {
    --reinterpret_cast<GateObject*>(static_cast<PyObject*>(gate))->alive;
    give_room(allocation);
  } else {
    PyErr_Clear();
    Ref done(PyObject_CallMethodObjArgs(device, names.release, self, allocation, nullptr));
    if (!done) PyErr_WriteUnraisable(self);
  }
  PyErr_Restore(type, value, trace);
}

// -- Caller: the base of Operation

constexpr Py_ssize_t MOST_PARTS = 96;

// The parts of a key: specs and plain values. `add` steals nothing and answers false for what cannot be part of a key.
struct Key {
  PyObject* parts[MOST_PARTS];
  Py_ssize_t count = 0;
  ~Key() {
    for (Py_ssize_t i = 0; i < count; ++i) Py_DECREF(parts[i]);
  }
  bool add(PyObject* part) {  // steals; null fails
    if (!part) return false;
    if (count == MOST_PARTS) {
      Py_DECREF(part);
      return false;
    }
    parts[count++] = part;
    return true;
  }
  PyObject* tuple() {
    PyObject* made = PyTuple_New(count);
    if (!made) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(made, i, parts[i]);
    count = 0;
    return made;
  }
};

bool plain(PyTypeObject* kind) {
  return kind == &PyLong_Type || kind == &PyFloat_Type || kind == &PyBool_Type || kind == &PyUnicode_Type || kind == Py_TYPE(Py_None);
}

bool add_value(Key& key, PyObject* value, PyObject*& device) {
  PyTypeObject* kind = Py_TYPE(value);
  if (kind == world.tensor) {
    PyObject *spec = slot(value, world.t_spec), *buffer = slot(value, world.t_buffer);
    if (!spec || !buffer) return false;
    if (!device) device = slot(buffer, world.b_device);
    return key.add(share(spec));
  }
  if (plain(kind)) {
    if (!key.add(share(reinterpret_cast<PyObject*>(kind)))) return false;
    // 0.0 and -0.0 are equal and are not the same call.
    if (kind == &PyFloat_Type && PyFloat_AS_DOUBLE(value) == 0.0) return key.add(PyObject_Repr(value));
    return key.add(share(value));
  }
  if (kind == &PyTuple_Type || kind == &PyList_Type) {
    Ref held(PySequence_Tuple(value));
    if (!held) return false;
    PyObject* items = held;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i)
      if (!plain(Py_TYPE(PyTuple_GET_ITEM(items, i)))) return false;
    return key.add(share(reinterpret_cast<PyObject*>(kind))) && key.add(held.release());
  }
  if (PySet_Contains(world.value_types, reinterpret_cast<PyObject*>(kind)) == 1) return key.add(share(value));
  return false;
}

std::uintptr_t address_of(PyObject* tensor) {
  Ref address(PyObject_CallMethodNoArgs(tensor, names.data_ptr));
  return address ? static_cast<std::uintptr_t>(PyLong_AsUnsignedLongLong(address)) : 0;
}

// Runs a kernel on torch tensors; a new reference to the result.
PyObject* run_direct(const PlanObject* plan, PyObject* const* values) {
  PyObject* out = PyObject_CallOneArg(world.empty_like, plan->like ? plan->like : values[0]);
  if (!out) return nullptr;
  const auto a = reinterpret_cast<const std::uint16_t*>(address_of(values[0]));
  const auto b = plan->direct == Direct::binary || plan->direct == Direct::matmul ? reinterpret_cast<const std::uint16_t*>(address_of(values[1])) : nullptr;
  auto* to = reinterpret_cast<std::uint16_t*>(address_of(out));
  if (PyErr_Occurred()) {
    Py_DECREF(out);
    return nullptr;
  }
  int threads = 1;
  PyThreadState* state = nullptr;
  if (plan->volume >= 64 * 1024) {
    Ref asked(PyObject_CallNoArgs(world.threads));
    threads = asked ? static_cast<int>(PyLong_AsLong(asked)) : 1;
    state = PyEval_SaveThread();
  }
  if (plan->direct == Direct::matmul) {
    run_matmul(a, {b, 0, false}, nullptr, to, false, plan->m, plan->k, plan->n, threads);
  } else if (plan->direct == Direct::unary) {
    run_unary(static_cast<Unary>(plan->step), a, to, plan->volume, threads);
  } else {
    const Operand row{a, 0.0f}, other{b, plan->number};
    run_binary_flat(static_cast<Binary>(plan->step), plan->reflected ? other : row, plan->reflected ? row : other, to, plan->volume, threads);
  }
  if (state) PyEval_RestoreThread(state);
  return out;
}

// The values of a tensor argument: a new reference; null without an exception where the long way must be taken.
PyObject* values_of(PyObject* tensor, PyObject* device, bool image) {
  if (Py_TYPE(tensor) != world.tensor) return nullptr;
  PyObject* buffer = slot(tensor, world.t_buffer);
  if (!buffer || slot(buffer, world.b_device) != device || slot(buffer, world.b_allocated) != Py_True) return nullptr;
  if (image) return PyObject_CallOneArg(world.operand, tensor);
  PyObject* values = slot(buffer, world.b_values);
  if (values && PyList_CheckExact(values) && PyList_GET_SIZE(values) == 1 && PyList_GET_ITEM(values, 0) != Py_None &&
      slot(tensor, world.t_spec) == slot(buffer, world.b_spec)) {
    return share(PyList_GET_ITEM(values, 0));
  }
  return PyObject_CallMethodNoArgs(tensor, names.part);
}

PyObject* next_id(PyObject* ids) { return Py_TYPE(ids)->tp_iternext(ids); }

// The remembered call. Null without an exception: go the long way.
PyObject* run_plan(PlanObject* plan, GateObject* gate, PyObject* device, PyObject* args, PyObject* kwargs) {
  constexpr Py_ssize_t MOST = 16;
  PyObject* values[MOST];
  const Py_ssize_t count_inputs = PyTuple_GET_SIZE(plan->inputs);
  if (count_inputs > MOST) return nullptr;
  Py_ssize_t have = 0;
  struct Drop {
    PyObject** values;
    Py_ssize_t& have;
    ~Drop() {
      while (have > 0) Py_DECREF(values[--have]);
    }
  } drop{values, have};
  for (Py_ssize_t i = 0; i < count_inputs; ++i) {
    PyObject* place = PyTuple_GET_ITEM(plan->inputs, i);
    PyObject* tensor = PyLong_CheckExact(place) ? PyTuple_GET_ITEM(args, PyLong_AsSsize_t(place)) : PyDict_GetItemWithError(kwargs, place);
    PyObject* value = tensor ? values_of(tensor, device, plan->images >> i & 1) : nullptr;
    if (!value) return nullptr;
    values[have++] = value;
  }
  if (world.recordings > 0) {
    Ref launches(PyObject_GetAttr(world.recording, names.launches));
    if (!launches) return nullptr;
    if (launches != Py_None) {
      Ref done(PyObject_CallMethodOneArg(launches, names.append, Py_None));
      if (!done) return nullptr;
    }
  }
  const double started = now();
  PyObject* spec = plan->spec;
  Ref allocation(take_room(gate, spec));
  if (!allocation) {
    if (PyErr_Occurred()) return nullptr;
    Ref memory(PyObject_GetAttr(device, names.memory));
    allocation.hold(memory ? PyObject_CallMethodOneArg(memory, names.allocate, spec) : nullptr);
    if (!allocation) return nullptr;
  }
  PyObject* list = PyList_New(1);
  if (!list) return nullptr;
  PyList_SET_ITEM(list, 0, share(Py_None));
  Ref buffer(world.buffer->tp_alloc(world.buffer, 0));
  if (!buffer) {
    Py_DECREF(list);
    return nullptr;
  }
  fill(buffer, world.b_spec, share(spec));
  fill(buffer, world.b_values, list);
  fill(buffer, world.b_images, share(Py_None));
  fill(buffer, world.b_device, share(device));
  fill(buffer, world.b_allocation, share(allocation));
  fill(buffer, world.b_allocated, share(Py_True));
  fill(buffer, world.b_borrowed, share(Py_False));
  fill(buffer, world.b_id, next_id(world.buffer_ids));
  ++gate->alive;
  PyObject* owner = PyWeakref_NewRef(buffer, nullptr);
  if (!owner) return nullptr;
  Py_XSETREF(slot(allocation, world.a_owner), owner);

  PyObject* result;
  bool straight = plan->direct != Direct::none;  // kernels walk along memory; values that are not contiguous go by the engine function
  for (Py_ssize_t i = 0; straight && i < count_inputs; ++i) {
    Ref contiguous(PyObject_CallMethodNoArgs(values[i], names.is_contiguous));
    if (!contiguous) return nullptr;
    straight = contiguous == Py_True;
  }
  if (straight) {
    result = run_direct(plan, values);
  } else {
    Ref raw(PyObject_VectorcallDict(plan->compute, values, static_cast<std::size_t>(count_inputs), plan->attributes));
    if (!raw) return nullptr;
    PyObject* both[2] = {raw, spec};
    result = PyObject_Vectorcall(world.rounded, both, 2, nullptr);
  }
  if (!result) return nullptr;
  PyList_SetItem(list, 0, result);
  if (!count(gate, plan->name, now() - started)) return nullptr;

  PyObject* tensor = world.tensor->tp_alloc(world.tensor, 0);
  if (!tensor) return nullptr;
  fill(tensor, world.t_spec, share(spec));
  fill(tensor, world.t_buffer, buffer.release());
  fill(tensor, world.t_topology, share(Py_None));
  fill(tensor, world.t_id, next_id(world.tensor_ids));
  return tensor;
}

// The call itself, whoever watches.
PyObject* caller_unwatched(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!world.tensor) {
    PyErr_SetString(PyExc_RuntimeError, "an operation was called before tessera was equipped");
    return nullptr;
  }
  Ref words(kwargs ? share(kwargs) : PyDict_New());
  if (!words) return nullptr;
  kwargs = words;
  Key key;
  PyObject* device = nullptr;
  bool known = key.add(share(self));
  for (Py_ssize_t i = 0; known && i < PyTuple_GET_SIZE(args); ++i) known = add_value(key, PyTuple_GET_ITEM(args, i), device);
  PyObject *word, *value;
  Py_ssize_t at = 0;
  while (known && PyDict_Next(kwargs, &at, &word, &value)) known = key.add(share(word)) && add_value(key, value, device);
  if (PyErr_Occurred()) return nullptr;
  if (!known || !device || device == Py_None) return PyObject_CallMethodObjArgs(self, names.missed, Py_None, Py_None, args, kwargs, nullptr);
  Ref frozen(key.tuple());
  Ref gate(PyObject_GetAttr(device, names.gate));
  if (!frozen || !gate) return nullptr;
  if (Py_TYPE(gate) == gate_type) {
    auto* open = reinterpret_cast<GateObject*>(static_cast<PyObject*>(gate));
    if (open->ready) {
      PyObject* plan = PyDict_GetItemWithError(open->plans, frozen);
      if (plan && Py_TYPE(plan) == plan_type) {
        Ref kept(share(plan));  // the computation may clear the cache
        PyObject* result = run_plan(reinterpret_cast<PlanObject*>(plan), open, device, args, kwargs);
        if (result || PyErr_Occurred()) return result;
      }
      if (PyErr_Occurred()) PyErr_Clear();  // unhashable: not a key after all
    }
  }
  return PyObject_CallMethodObjArgs(self, names.missed, static_cast<PyObject*>(frozen), device, args, kwargs, nullptr);
}

PyObject* caller_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!world.tensor || quiet()) return caller_unwatched(self, args, kwargs);
  Ref words(kwargs ? share(kwargs) : PyDict_New());
  return words ? PyObject_CallMethodObjArgs(self, names.watched, args, static_cast<PyObject*>(words), nullptr) : nullptr;
}

// -- telling the launcher what Python has

bool find_slot(PyTypeObject* type, const char* name, Slot& offset) {
  Ref found(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name));
  if (!found) return false;
  if (Py_TYPE(found) != &PyMemberDescr_Type) {
    PyErr_Format(PyExc_TypeError, "%s.%s must be a slot", type->tp_name, name);
    return false;
  }
  offset = reinterpret_cast<PyMemberDescrObject*>(static_cast<PyObject*>(found))->d_member->offset;
  return true;
}

PyObject* equip(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* words[] = {"tensor",     "buffer",     "allocation", "observers", "value_types", "recording",
                                "tensor_ids", "buffer_ids", "empty_like", "rounded",   "threads",     "operand", nullptr};
  World w;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!O!OOOOOOO", const_cast<char**>(words), &PyType_Type, &w.tensor, &PyType_Type, &w.buffer,
                                   &PyType_Type, &w.allocation, &PyList_Type, &w.observers, &PySet_Type, &w.value_types, &w.recording,
                                   &w.tensor_ids, &w.buffer_ids, &w.empty_like, &w.rounded, &w.threads, &w.operand))
    return nullptr;
  const bool found = find_slot(w.tensor, "spec", w.t_spec) && find_slot(w.tensor, "buffer", w.t_buffer) &&
                     find_slot(w.tensor, "topology", w.t_topology) && find_slot(w.tensor, "tensor_id", w.t_id) &&
                     find_slot(w.buffer, "spec", w.b_spec) && find_slot(w.buffer, "values", w.b_values) &&
                     find_slot(w.buffer, "images", w.b_images) && find_slot(w.buffer, "device", w.b_device) &&
                     find_slot(w.buffer, "allocation", w.b_allocation) && find_slot(w.buffer, "allocated", w.b_allocated) &&
                     find_slot(w.buffer, "borrowed", w.b_borrowed) && find_slot(w.buffer, "unique_id", w.b_id) &&
                     find_slot(w.allocation, "plan", w.a_plan) && find_slot(w.allocation, "_region", w.a_region) &&
                     find_slot(w.allocation, "address", w.a_address) && find_slot(w.allocation, "live", w.a_live) &&
                     find_slot(w.allocation, "owner", w.a_owner);
  if (!found) return nullptr;
  for (PyObject* kept : {reinterpret_cast<PyObject*>(w.tensor), reinterpret_cast<PyObject*>(w.buffer), reinterpret_cast<PyObject*>(w.allocation),
                         w.observers, w.value_types, w.recording, w.tensor_ids, w.buffer_ids, w.empty_like, w.rounded, w.threads, w.operand})
    Py_INCREF(kept);  // for as long as the process lives
  world = w;
  Py_RETURN_NONE;
}

PyObject* record(PyObject*, PyObject* change) {
  world.recordings += PyLong_AsLong(change);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef FUNCTIONS[] = {{"equip", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(equip)), METH_VARARGS | METH_KEYWORDS,
                            "Tells the launcher the classes and objects it works with."},
                           {"recording", record, METH_O, "Counts the calls that are being recorded, up or down."},
                           {nullptr, nullptr, 0, nullptr}};

PyMethodDef CALLER_METHODS[] = {{"_unwatched", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(caller_unwatched)),
                                 METH_VARARGS | METH_KEYWORDS, "The call itself, whoever watches."},
                                {nullptr, nullptr, 0, nullptr}};
PyType_Slot CALLER_SLOTS[] = {{Py_tp_call, reinterpret_cast<void*>(caller_call)},
                              {Py_tp_methods, CALLER_METHODS},
                              {Py_tp_doc, const_cast<char*>("A public operation; calls that were seen before never reach Python.")},
                              {0, nullptr}};
PyType_Slot OWNER_SLOTS[] = {{Py_tp_finalize, reinterpret_cast<void*>(owner_finalize)},
                             {Py_tp_doc, const_cast<char*>("Gives its room back when nobody holds it any more.")},
                             {0, nullptr}};
PyType_Slot GATE_SLOTS[] = {{Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},     {Py_tp_init, reinterpret_cast<void*>(gate_init)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(destroy<gate_clear>)}, {Py_tp_traverse, reinterpret_cast<void*>(gate_traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(gate_clear)},            {Py_tp_members, GATE_MEMBERS},
                            {0, nullptr}};
PyType_Slot PLAN_SLOTS[] = {{Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},     {Py_tp_init, reinterpret_cast<void*>(plan_init)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(destroy<plan_clear>)}, {Py_tp_traverse, reinterpret_cast<void*>(plan_traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(plan_clear)},            {Py_tp_members, PLAN_MEMBERS},
                            {0, nullptr}};
constexpr unsigned BASE = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
constexpr unsigned COLLECTED = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
PyType_Spec CALLER = {"tessera._native.Caller", sizeof(PyObject), 0, BASE, CALLER_SLOTS};
PyType_Spec OWNER = {"tessera._native.Owner", sizeof(PyObject), 0, BASE, OWNER_SLOTS};
PyType_Spec GATE = {"tessera._native.Gate", sizeof(GateObject), 0, COLLECTED, GATE_SLOTS};
PyType_Spec PLAN = {"tessera._native.Plan", sizeof(PlanObject), 0, COLLECTED, PLAN_SLOTS};

}  // namespace

int add_launcher(PyObject* module) {
  const auto intern = [](const char* text) { return PyUnicode_InternFromString(text); };
  names = {intern("_missed"), intern("_watched"), intern("gate"),   intern("launches"), intern("data_ptr"), intern("size_per_bank"),
           intern("release"), intern("part"),     intern("append"), intern("memory"),   intern("allocate"),
           intern("is_contiguous")};
  gate_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&GATE));
  plan_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&PLAN));
  PyObject *caller = PyType_FromSpec(&CALLER), *owner = PyType_FromSpec(&OWNER);
  if (!gate_type || !plan_type || !caller || !owner || !free_list_type()) return -1;
  const std::pair<const char*, PyObject*> types[] = {{"Gate", reinterpret_cast<PyObject*>(gate_type)},
                                                     {"Plan", reinterpret_cast<PyObject*>(plan_type)},
                                                     {"Caller", caller},
                                                     {"Owner", owner},
                                                     {"FreeList", reinterpret_cast<PyObject*>(free_list_type())}};
  for (const auto& [name, type] : types)
    if (PyModule_AddObjectRef(module, name, type) < 0) return -1;
  return PyModule_AddFunctions(module, FUNCTIONS);
}

}  // namespace tessera
