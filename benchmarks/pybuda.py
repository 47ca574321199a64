"""How fast PyBuda's compiled graphs run, against torch eager in the same dtype, in one process: `python benchmarks/pybuda.py [name ...]`.

Each line is a ratio (eager / ours, so above 1 is faster than eager), from the best of alternating runs; the machine's absolute times are
printed beside it only to make sense of the ratio. The names: bert, resnet, decoder, first, push.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

sys.path = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]  # this file is called pybuda, too

import pybuda  # noqa: E402


def models() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "examples" / "pybuda" / "models.py"
    spec = importlib.util.spec_from_file_location("pybuda_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def race(eager: Callable[[], object], ours: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The best time of each, in milliseconds, taken in turns so that a busy machine slows both."""
    best = [float("inf"), float("inf")]
    for index in range(-1, rounds):
        for place, run in enumerate((eager, ours)):
            start = time.perf_counter()
            run()
            if index >= 0:
                best[place] = min(best[place], time.perf_counter() - start)
    return best[0] * 1e3, best[1] * 1e3


def against_eager(
    title: str, model: torch.nn.Module, x: torch.Tensor, df: pybuda.DataFormat | None, dtype: torch.dtype, rounds: int, light: int = 0
) -> None:
    pybuda.pybuda_reset()
    pybuda.set_configuration_options(default_df_override=df)
    if light:
        pybuda.config._get_global_compiler_config().enable_amp_light(light)
    device = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("model", model))
    twin = copy.deepcopy(model).to(dtype)
    given = x.to(dtype) if x.is_floating_point() else x
    device.push_to_inputs(given)
    queue = pybuda.run_inference()
    queue.get()

    def ours() -> None:
        device.push_to_inputs(given)
        pybuda.run_inference()
        queue.get()

    def eager() -> None:
        with torch.no_grad():
            twin(given)

    a, b = race(eager, ours, rounds)
    print(f"{title:<58} {a / b:6.2f}x   eager {a:8.2f} ms   ours {b:8.2f} ms")


def bert(made: ModuleType) -> None:
    model, x = made.BertEncoder().eval(), torch.randn(8, 128, 768)
    against_eager("BERT-base encoder, batch 8 x 128, Float32", model, x, None, torch.float32, 5)
    against_eager("BERT-base encoder, batch 8 x 128, Float16_b", model, x, pybuda.DataFormat.Float16_b, torch.bfloat16, 8)


def resnet(made: ModuleType) -> None:
    model, x = made.ResNet().eval(), torch.randn(1, 3, 224, 224)
    against_eager("ResNet-50, batch 1, Float32", model, x, None, torch.float32, 10)
    against_eager("ResNet-50, batch 1, Float16_b", model, x, pybuda.DataFormat.Float16_b, torch.bfloat16, 10)


def decoder(made: ModuleType) -> None:
    model, x = made.Llama(1000, 8, 1024, 16, 4, 2816).eval(), torch.randint(0, 1000, (1, 1))
    against_eager("decoder 8 x 1024, one token, Bfp8_b weights vs bf16", model, x, pybuda.DataFormat.Float16_b, torch.bfloat16, 20, light=1)
    against_eager("decoder 8 x 1024, one token, Bfp8_b everywhere vs bf16", model, x, pybuda.DataFormat.Bfp8_b, torch.bfloat16, 20)


def first(made: ModuleType) -> None:
    pybuda.pybuda_reset()
    model, x = made.BertEncoder().eval(), torch.randn(1, 128, 768)
    device = pybuda.TTDevice("tt0")
    start = time.perf_counter()
    device.place_module(pybuda.PyTorchModule("bert", model))
    device.push_to_inputs(x)
    pybuda.run_inference().get()
    print(f"{'BERT-base, batch 1: place_module to first result':<58} {time.perf_counter() - start:6.2f} s   (asked: under 5 s)")


def push(made: ModuleType) -> None:
    pybuda.pybuda_reset()
    module, x = pybuda.PyTorchModule("identity", torch.nn.ReLU()), torch.randn(1, 32)
    device = pybuda.TTDevice("tt0", module=module)
    device.push_to_inputs(x)
    queue = pybuda.run_inference()
    queue.get()
    executor = device.executor

    def ours() -> None:
        device.push_to_inputs(x)
        pybuda.run_inference()
        queue.get()

    def bare() -> None:
        executor.forward((x,))

    times: list[tuple[float, float]] = []
    for _ in range(20):
        times.append(tuple(_each(run, 50) for run in (bare, ours)))  # type: ignore[arg-type]
    a, b = min(t[0] for t in times), min(t[1] for t in times)
    print(f"{'per push: queue, worker, queue, beyond the graph itself':<58} {(b - a) * 1e6:6.0f} us   (asked: under 100 us)")


def _each(run: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


ALL = {"first": first, "push": push, "bert": bert, "resnet": resnet, "decoder": decoder}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="which to run (all by default)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    made = models()
    for name in options.names or ALL:
        ALL[name](made)


if __name__ == "__main__":
    main()
