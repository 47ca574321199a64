"""Types of the C++ module (native/): memory travels as addresses, sizes are checked by the Python callers."""

from collections.abc import Sequence
from typing import Any

def isa() -> str: ...
def runnable_isas() -> list[str]: ...
def set_isa(name: str) -> None: ...
def cpu_features() -> dict[str, bool]: ...
def tilize(
    matrix: int,
    tiles: int,
    element_size: int,
    matrices: int,
    rows: int,
    columns: int,
    tile_height: int,
    tile_width: int,
    swap_faces: bool,
    swap_elements: bool,
    pad: int,
    threads: int,
    /,
) -> None: ...
def untilize(
    tiles: int,
    matrix: int,
    element_size: int,
    matrices: int,
    rows: int,
    columns: int,
    tile_height: int,
    tile_width: int,
    swap_faces: bool,
    swap_elements: bool,
    threads: int,
    /,
) -> None: ...
def pack_blocks(
    values: int,
    values_kind: int,
    image: int,
    matrices: int,
    rows: int,
    columns: int,
    tile_height: int,
    tile_width: int,
    swap_faces: bool,
    swap_elements: bool,
    magnitude_bits: int,
    device_rounding: bool,
    pad: float,
    threads: int,
    /,
) -> None: ...
def unpack_blocks(
    image: int,
    values: int,
    values_kind: int,
    matrices: int,
    rows: int,
    columns: int,
    tile_height: int,
    tile_width: int,
    swap_faces: bool,
    swap_elements: bool,
    magnitude_bits: int,
    threads: int,
    /,
) -> None: ...
def sum_blocks(image: int, tiles: int, tile_elements: int, magnitude_bits: int, threads: int, /) -> float: ...
def quantize_blocks(
    source: int,
    source_kind: int,
    target: int,
    target_kind: int,
    rows: int,
    columns: int,
    magnitude_bits: int,
    device_rounding: bool,
    threads: int,
    /,
) -> None: ...

UNARY_STEPS: dict[str, int]
BINARY_STEPS: dict[str, int]

def unary(step: int, x: int, out: int, count: int, threads: int, /) -> None: ...
def table(table: int, x: int, out: int, count: int, threads: int, /) -> None: ...
def binary_flat(step: int, a: int, b: int, out: int, count: int, threads: int, /) -> None: ...
def binary_scalar(step: int, a: int, value: float, reflected: bool, out: int, count: int, threads: int, /) -> None: ...
def binary(
    step: int,
    a: int,
    a_value: float,
    a_shape: Sequence[int],
    b: int,
    b_value: float,
    b_shape: Sequence[int],
    out: int,
    shape: Sequence[int],
    threads: int,
    /,
) -> None: ...
def where(
    condition: int,
    condition_shape: Sequence[int],
    a: int,
    a_value: float,
    a_shape: Sequence[int],
    b: int,
    b_value: float,
    b_shape: Sequence[int],
    out: int,
    shape: Sequence[int],
    threads: int,
    /,
) -> None: ...
def softmax(
    x: int, mask: int, mask_rows: int, mask_repeat: int, scale: float, out: int, rows: int, width: int, threads: int, /
) -> None: ...
def norm(
    x: int, residual: int, weight: int, bias: int, epsilon: float, centered: bool, out: int, rows: int, width: int, threads: int, /
) -> None: ...
def reduce(kind: int, x: int, scale: float, out: int, rows: int, width: int, threads: int, /) -> None: ...
def arg(kind: int, x: int, out: int, rows: int, width: int, threads: int, /) -> None: ...
def cumsum(x: int, out: int, rows: int, width: int, threads: int, /) -> None: ...
def sort(x: int, values: int, places: int, rows: int, width: int, keep: int, descending: bool, threads: int, /) -> None: ...
def gather(table: int, rows: int, index: int, count: int, out: int, row_bytes: int, threads: int, /) -> None: ...
def permute(x: int, out: int, element_size: int, shape: Sequence[int], order: Sequence[int], threads: int, /) -> None: ...
def matmul(
    left: int, right: int, bits: int, transposed: bool, bias: int, out: int, out_float: bool, m: int, k: int, n: int, threads: int, /
) -> None: ...
def unary_wide(step: int, x: int, is_float: bool, table: int, out: int, count: int, threads: int, /) -> None: ...
def binary_wide(
    step: int,
    a: int,
    a_float: bool,
    a_value: float,
    a_shape: Sequence[int],
    b: int,
    b_float: bool,
    b_value: float,
    b_shape: Sequence[int],
    out: int,
    shape: Sequence[int],
    threads: int,
    /,
) -> None: ...
def unary_of_float(step: int, x: int, out: int, count: int, threads: int, /) -> None: ...
def attention(
    q: int,
    k: int,
    v: int,
    mask: int,
    out: int,
    batch: int,
    heads: int,
    shared: int,
    rows: int,
    keys: int,
    width: int,
    wide: int,
    mask_batch: int,
    mask_heads: int,
    scale: float,
    causal: bool,
    threads: int,
    /,
) -> None: ...
def equip(**known: Any) -> None: ...
def recording(change: int, /) -> None: ...

class Caller: ...
class Owner: ...

class Gate:
    ready: bool
    alive: int
    seconds: float
    operations: dict[str, int]
    def __init__(self, plans: dict[Any, Any], bank_plans: dict[Any, Any], operations: dict[str, int], /) -> None: ...

class Plan:
    def __init__(
        self,
        name: str,
        compute: Any,
        attributes: dict[str, Any],
        inputs: tuple[int | str, ...],
        spec: Any,
        direct: Any,
        images: tuple[int, ...],
        /,
    ) -> None: ...

class FreeList:
    def __init__(self, base: int, size: int) -> None: ...

class Chain:
    def __init__(self, steps: Sequence[tuple[int, int, int, int, int, float, int]], registers: int, inputs: int, /) -> None: ...
    def run(self, memory: Sequence[int], count: int, threads: int, /) -> None: ...
