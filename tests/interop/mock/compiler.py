#!/usr/bin/env python3
"""Stands in for the cross compiler that the official ttnn wheel asks for, so that the wheel opens a mock device.

On a mock cluster no kernel ever runs, so whatever is asked for is "built" as the smallest RISC-V executable that the
wheel's loader accepts. Install it as <site-packages>/ttnn/runtime/sfpi/compiler/bin/riscv-tt-elf-g++ (see README.md).
"""

import struct
import sys
from pathlib import Path


def smallest_elf(address: int = 0x1000) -> bytes:
    names = b"\0.text\0.shstrtab\0.symtab\0.strtab\0.rela.text\0"
    text = struct.pack("<I", 0x00000013) * 4  # nop
    header, segment = 52, 32
    at_text = header + segment + 12  # 8-aligned
    at_names = at_text + len(text)
    at_symbols = (at_names + len(names) + 7) & ~7
    at_strings = at_symbols + 16
    at_sections = (at_strings + 1 + 7) & ~7
    out = bytearray(at_sections)
    out[0:52] = struct.pack("<4sBBB9xHHIIIIIHHHHHH", b"\x7fELF", 1, 1, 1, 2, 243, 1, address, header, at_sections, 0, 52, 32, 1, 40, 6, 2)
    out[52:84] = struct.pack("<8I", 1, at_text, address, address, len(text), len(text), 5, 4)
    out[at_text : at_text + len(text)] = text
    out[at_names : at_names + len(names)] = names

    def section(*fields: int) -> bytes:  # name, kind, flags, address, offset, size, link, info, alignment, entry size
        return struct.pack("<10I", *fields)

    out += section(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    out += section(1, 1, 6, address, at_text, len(text), 0, 0, 4, 0)
    out += section(7, 3, 0, 0, at_names, len(names), 0, 0, 1, 0)
    out += section(17, 2, 0, 0, at_symbols, 16, 4, 1, 4, 16)
    out += section(25, 3, 0, 0, at_strings, 1, 0, 0, 1, 0)
    out += section(33, 4, 0, 0, at_symbols, 0, 3, 1, 4, 12)  # no relocations, but a place for them
    return bytes(out)


def main() -> None:
    args = sys.argv[1:]
    if "-o" in args:
        out = Path(args[args.index("-o") + 1])
        out.write_bytes(smallest_elf())
        if "-MMD" in args or "-MF" in args:  # the list of headers that a compile step writes beside its output
            listing = Path(args[args.index("-MF") + 1]) if "-MF" in args else out.with_suffix(".d")
            listing.write_text(f"{out}:\n")
    else:
        print("riscv-tt-elf-g++ (stand-in) 15.1.0")


if __name__ == "__main__":
    main()
