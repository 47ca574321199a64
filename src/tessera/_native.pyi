"""Types of the C++ module (native/): memory travels as addresses, sizes are checked by the Python callers."""

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
