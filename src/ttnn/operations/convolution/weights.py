"""The two forms of a convolution's weights: a kernel as torch has it, and the rows that the chip's kernel reads.

Turning one into the other costs more than a small convolution does, so the kernel that was made of a buffer is kept beside it, for as long as the
buffer lives and holds the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from tessera.engine import convolution as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.rounding import to_grid
from tessera.formats.shape import Shape
from tessera.memory.sharding import round_up
from tessera.memory.spec import TensorSpec
from tessera.runtime.buffer import Buffer
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor
from ttnn.operations.conversion import to_device
from ttnn.operations.rules import name_of, require


class Form(NamedTuple):
    """What both forms of the weights are forms of. Transposed convolutions have kernels [in, out/groups, kh, kw]."""

    ins: int
    outs: int
    kernel: tuple[int, int]
    groups: int
    transposed: bool = False
    mirror: bool = True
    #: Cores that share the channels of an image whose rows are not tiles.
    lanes: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        first, second = (self.ins, self.outs) if self.transposed else (self.outs, self.ins)
        return first, second // self.groups, *self.kernel

    @property
    def dense(self) -> bool:
        """Groups that do not divide the channels are spread out with zeros between, as one group."""
        return bool(self.groups > 1 and (self.ins % self.groups or self.outs % self.groups))


class Rows:
    """A kernel on its way through a launch; calls with other kernels of one shape are one program."""

    __slots__ = ("values",)

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values


class _Kept(NamedTuple):
    source: torch.Tensor
    version: int
    made: dict[Any, torch.Tensor]


_kept: WeakKeyDictionary[Buffer, _Kept] = WeakKeyDictionary()


def _once(tensor: Tensor, key: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """What `make` gives of a tensor's values, made again only when those have changed."""
    values = tensor.part(0)
    kept = _kept.get(tensor.buffer)
    if kept is None or kept.source is not values or kept.version != values._version:
        kept = _kept[tensor.buffer] = _Kept(values, values._version, {})
    found = kept.made.get(key)
    if found is None:
        found = kept.made[key] = make(values)
    return found


def is_prepared(weight: Tensor, form: Form) -> bool:
    """Weights on the device that are not a kernel are rows of an earlier call."""
    return weight.buffer.device is not None and weight.spec.dims != form.shape


def kernel_of(what: str, weight: Tensor, form: Form, dtype: DataType) -> torch.Tensor:
    """The kernel as torch has it, rounded to `dtype`, whichever form was given."""
    dims = weight.spec.dims
    height, width = form.kernel
    if dims == form.shape:
        return _once(weight, (form, dtype), lambda values: _ordered(to_grid(_whole(values, form).contiguous(), dtype), form))
    if len(dims) == 4 and not form.transposed and dims[0] == form.outs and dims[2:] == form.kernel:
        require(
            dims[1] * form.groups <= form.ins,
            f"{what}: weight_tensor of shape {weight.spec.shape} has more channels than in_channels={form.ins} in groups={form.groups}",
        )
        return _once(weight, (form, dtype), lambda values: _ordered(to_grid(_whole(values, form).contiguous(), dtype), form))
    rows = height * width * form.ins
    require(
        len(dims) == 4 and dims[2] >= rows and dims[3] >= form.outs,
        f"{what}: weight_tensor of shape {weight.spec.shape} is neither {list(form.shape)} nor weights prepared for this convolution",
    )

    def back(values: torch.Tensor) -> torch.Tensor:
        groups = 1 if form.dense else form.groups
        flat = engine.unprepared(values[0, 0, :rows], kernel=form.kernel, ins=form.ins, outs=form.outs, groups=groups)
        return _ordered(engine.turned_back(flat, groups=groups, mirror=form.mirror) if form.transposed else flat, form)

    return _once(weight, (form, None), back)


def _ordered(kernel: torch.Tensor, form: Form) -> torch.Tensor:
    """Images have their channels last; a kernel that has them last too is not put in order again by each convolution."""
    return kernel.contiguous(memory_format=torch.contiguous_format if form.transposed else torch.channels_last)


def _whole(values: torch.Tensor, form: Form) -> torch.Tensor:
    """A kernel with a row for each channel that it sums over: groups that do not divide, and channels that are not there, are zeros."""
    if form.transposed:
        return values
    if form.dense:
        return engine.spread(values, ins=form.ins, groups=form.groups)
    if values.shape[1] * form.groups < form.ins:
        return torch.nn.functional.pad(values, (0, 0, 0, 0, 0, form.ins // form.groups - values.shape[1]))
    return values


def prepared(weight: Tensor, kernel: torch.Tensor, form: Form, dtype: DataType, layout: Layout, device: Device) -> Tensor:
    """Weights on the device as the chip's kernel reads them; the rows of a line of the kernel are padded to whole tiles."""

    def rows_of(_: torch.Tensor) -> torch.Tensor:
        groups = 1 if form.dense else form.groups
        flat = engine.turned(kernel, groups=groups, mirror=form.mirror) if form.transposed else kernel
        return to_grid(engine.prepared(flat, groups=groups).contiguous(), dtype)

    rows = _once(weight, (form, dtype, "rows"), rows_of)
    spec = TensorSpec.of(Shape.of(tuple(rows.shape)), dtype, Layout.TILE)
    height, width = form.kernel
    if layout == Layout.ROW_MAJOR:
        each = round_up(-(-form.ins // form.lanes), 8)
        lines = round_up(width * each, 32) * height * -(-form.ins // each)
    else:
        lines = round_up(form.ins, 32) * height * width
    if lines > spec.padded_shape[-2]:
        spec = spec.padded_to((1, 1, lines, spec.padded_shape[-1]))
    return Tensor.of(spec, device.new_buffer(spec, [rows] * device.num_chips))


def flat_bias(bias: Tensor, dtype: DataType, device: Device) -> Tensor:
    """A bias of the host as a row of tiles on the device."""
    values = _once(bias, dtype, lambda given: to_grid(given.reshape(1, 1, 1, -1).contiguous(), dtype))
    spec = TensorSpec.of(Shape.of(tuple(values.shape)), dtype, Layout.TILE)
    return to_device.function(Tensor.on_host(spec, [values]), device)  # type: ignore[no-any-return]


# -- prepared ahead of the first call


def _prepared_ahead(what: str, weight: Tensor, form: Form, conv_config: Any, layout: Layout, device: Device) -> Tensor:
    dtype = getattr(conv_config, "weights_dtype", None) or weight.spec.dtype
    require(FORMATS[dtype].is_float, f"{what}: weights must be of a float dtype, got {name_of(dtype)}")
    return prepared(weight, kernel_of(what, weight, form, dtype), form, dtype, layout, device)


def _four_dims(what: str, weight: Tensor, order: str) -> tuple[int, ...]:
    require(len(weight.spec.dims) == 4, f"{what}: weight_tensor must be {order}, got {weight.spec.shape}")
    return weight.spec.dims


def _order(what: str, given: str, expected: str) -> None:
    require(given == expected, f"{what}: Only {expected} weights are supported, got weights_format={given!r}")


def prepare_conv_weights(
    *,
    weight_tensor: Tensor,
    device: Device,
    groups: int = 1,
    weights_format: str = "OIHW",
    conv_config: Any = None,
    input_layout: Layout = Layout.ROW_MAJOR,
    **_: Any,
) -> Tensor:
    """Weights in the form that `conv2d` keeps on the device, made ahead of the first call."""
    _order("prepare_conv_weights", weights_format, "OIHW")
    outs, ins, height, width = _four_dims("prepare_conv_weights", weight_tensor, "[out, in/groups, kh, kw]")
    form = Form(ins * groups, outs, (height, width), groups)
    return _prepared_ahead("prepare_conv_weights", weight_tensor, form, conv_config, input_layout, device)


def prepare_conv_transpose2d_weights(
    *,
    weight_tensor: Tensor,
    device: Device,
    groups: int = 1,
    weights_format: str = "IOHW",
    conv_config: Any = None,
    input_layout: Layout = Layout.ROW_MAJOR,
    mirror_kernel: bool = True,
    **_: Any,
) -> Tensor:
    """Weights in the form that `conv_transpose2d` keeps on the device: those of the convolution that it is, mirrored and turned."""
    _order("prepare_conv_transpose2d_weights", weights_format, "IOHW")
    ins, outs, height, width = _four_dims("prepare_conv_transpose2d_weights", weight_tensor, "[in, out/groups, kh, kw]")
    form = Form(ins, outs * groups, (height, width), groups, True, mirror_kernel)
    return _prepared_ahead("prepare_conv_transpose2d_weights", weight_tensor, form, conv_config, input_layout, device)


def prepare_conv_bias(*, bias_tensor: Tensor, device: Device, conv_config: Any = None, **_: Any) -> Tensor:
    """A bias in the form that `conv2d` and `conv_transpose2d` keep on the device."""
    return flat_bias(bias_tensor, getattr(conv_config, "weights_dtype", None) or bias_tensor.spec.dtype, device)


prepare_conv_transpose2d_bias = prepare_conv_bias
