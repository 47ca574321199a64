"""PyBuda in half a minute: a small model compiled onto a chip's grid, where its operations went, and how close its numbers are."""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import pybuda


class Classifier(nn.Module):
    """A convolution, one block of attention, a head."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patch = nn.Sequential(nn.Conv2d(3, width, 4, 4), nn.BatchNorm2d(width), nn.ReLU())
        self.block = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.block(self.patch(image).flatten(2).transpose(1, 2)).mean(1))


def main() -> int:
    console = Console()
    torch.manual_seed(0)
    model, image = Classifier().eval(), torch.randn(1, 3, 32, 32)
    pybuda.pybuda_reset()
    try:
        pybuda.set_configuration_options(default_df_override=pybuda.DataFormat.Float16_b)
        tt0 = pybuda.TTDevice("tt0", arch=pybuda.BackendDevice.Wormhole_B0, module=pybuda.PyTorchModule("classifier", model))
        start = time.perf_counter()
        tt0.push_to_inputs(image)
        output = pybuda.run_inference().get()[0].value()
        seconds = time.perf_counter() - start
        report = pybuda.compile_report(tt0)
        with torch.no_grad():
            pcc = pybuda.verify.calculate_pcc(model(image), output)
    finally:
        pybuda.pybuda_reset()
    table = Table(
        "operation", "type", "epoch", "core (row, column)", "grid", "L1 bytes", title=f"PyBuda: a small classifier on {report['arch']}"
    )
    for row in report["placement"]:
        table.add_row(
            row["op"],
            row["type"],
            str(row["epoch"]),
            str(tuple(row["grid_loc"])),
            "x".join(map(str, row["grid_size"])),
            f"{row['l1_bytes']:,}",
        )
    console.print(table)
    console.print(
        f"{len(report['placement'])} operations in {report['epochs']} epoch(s), DRAM by channel: {list(report['memory']['dram'].values())} bytes"
    )
    console.print(f"compiled and run in {seconds:.1f} s; PCC against PyTorch in float32: {pcc:.6f} (Float16_b on the device)")
    return 0 if pcc > 0.99 else 1


if __name__ == "__main__":
    raise SystemExit(main())
