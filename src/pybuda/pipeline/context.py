"""The one pipeline of this process: its devices in order, a worker for each, the queues between them, and the error that stopped it."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from loguru import logger

from pybuda._C.backend_api import BackendType
from pybuda.pipeline.queues import Channel, ResultQueue, Stopped

if TYPE_CHECKING:
    from pybuda.device import Device

Task = Callable[[], Any]


class Worker:
    """One thread for one device. It does what it is told, in order; after an error it drops what is left."""

    def __init__(self, context: Context, name: str) -> None:
        self.context = context
        self.tasks: SimpleQueue[tuple[Task | None, Future[Any] | None]] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=f"pybuda-{name}", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        context = self.context
        while True:
            task, future = self.tasks.get()
            if task is None:
                return
            try:
                if context.error is not None or context.stopping:
                    raise Stopped
                result = task()
                if future is not None:
                    future.set_result(result)
            except Stopped as stop:
                if future is not None:
                    future.set_exception(context.error or stop)
            except BaseException as error:
                context.fail(error)
                if future is not None:
                    future.set_exception(error)
            finally:
                context.finished_one()


class Context:
    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.workers: list[Worker] = []
        self.error: BaseException | None = None
        self.stopping = False
        self.finished = False
        self.compiled = False
        self.training = False
        self.sequential = False
        self.microbatch_count = 1
        self.channels: list[Channel] = []  # between devices: forward i -> i+1
        self.back: list[Channel] = []  # gradients i+1 -> i
        self._pending = 0
        self.endless = False  # a run that only shutdown ends
        self._idle = threading.Condition(threading.Lock())
        self.reset_queues()

    # queues -----------------------------------------------------------------------------------------------------------

    def reset_queues(self) -> None:
        self.output_queue: Any = ResultQueue(self.expecting, "output")
        self.loss_queue: Any = ResultQueue(self.expecting, "loss")
        self.checkpoint_queue: Any = ResultQueue(self.expecting, "checkpoint")
        self.intermediates_queue: Any = ResultQueue(self.expecting, "intermediates")
        self._checkpoints: list[list[Any]] = []

    def user_queues(self) -> list[Any]:
        return [self.output_queue, self.loss_queue, self.checkpoint_queue, self.intermediates_queue]

    def expecting(self) -> bool:
        """Raise the error that stopped the pipeline, if one did; say whether any task is left."""
        self.check()
        return self._pending > 0

    # errors -----------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
            logger.error(f"a PyBuda device failed: {error!r}")
            logger.debug("".join(traceback.format_exception(error)))
        self._wake()

    def _wake(self) -> None:
        for channel in [*self.channels, *self.back, *(d.inputs for d in self.devices), *(d.targets for d in self.devices)]:
            channel.close()
        for one in self.user_queues():
            if isinstance(one, ResultQueue):
                one.wake()

    # tasks ------------------------------------------------------------------------------------------------------------

    def submit(self, index: int, task: Task, future: Future[Any] | None = None) -> None:
        with self._idle:
            self._pending += 1
        self.workers[index].tasks.put((task, future))

    def finished_one(self) -> None:
        with self._idle:
            self._pending -= 1
            done = self._pending == 0
            if done:
                self._idle.notify_all()
        if done:
            for one in self.user_queues():
                if isinstance(one, ResultQueue):
                    one.wake()

    def sync(self) -> None:
        """Wait until every task is done, or one failed."""
        self._finite("sync")
        with self._idle:
            while self._pending and self.error is None:
                self._idle.wait(0.05)
        self.check()

    def _finite(self, what: str) -> None:
        if self.endless and self.error is None:
            raise RuntimeError(f"{what} would wait for a run with input_count=0, which never ends; call shutdown() first")

    def call(self, index: int, task: Task) -> Any:
        """Run `task` on a device's worker after everything it was told before, and wait for the answer."""
        self.check()
        self._finite("reading or writing a device's state")
        if self.sequential or not self.workers:
            return task()
        future: Future[Any] = Future()
        self.submit(index, task, future)
        return future.result()

    # life -------------------------------------------------------------------------------------------------------------

    def wants_sequential(self, asked: bool) -> bool:
        return (
            asked
            or "PYBUDA_FORCE_SEQUENTIAL" in os.environ
            or any(d.devtype in (BackendType.Golden, BackendType.Model) for d in self.devices if d.is_tt)
        )

    def start(self, sequential: bool) -> None:
        self.sequential = self.wants_sequential(sequential)
        if not self.sequential and not self.workers:
            self.workers = [Worker(self, d.name) for d in self.devices]

    def connect(self) -> None:
        self.channels = [Channel() for _ in self.devices[1:]]
        self.back = [Channel() for _ in self.devices[1:]]

    def stop(self) -> None:
        """End the workers; what they were doing is abandoned at the next operation."""
        self.stopping = True
        self._wake()
        for one in self.user_queues():
            if isinstance(one, ResultQueue):
                one.close()
        for worker in self.workers:
            worker.tasks.put((None, None))
        current = threading.current_thread()
        for worker in self.workers:
            if worker.thread is not current:
                worker.thread.join(timeout=10)
        self.workers = []
        self.stopping = self.endless = False
        self._pending = 0
        self.error = None
        self.compiled = False
        self.channels, self.back = [], []
        for device in self.devices:
            device.stop()
        self.reset_queues()

    def push_checkpoint(self, index: int, value: Any) -> None:
        """Collect one device's part; a checkpoint is whole when every device gave its own."""
        with self._idle:
            slot = next((c for c in self._checkpoints if c[index] is None), None)
            if slot is None:
                slot = [None] * len(self.devices)
                self._checkpoints.append(slot)
            slot[index] = value
            whole = [c for c in self._checkpoints if all(v is not None for v in c)]
            self._checkpoints = [c for c in self._checkpoints if any(v is None for v in c)]
        for one in whole:
            self.checkpoint_queue.put(one)


CONTEXT = Context()


def context() -> Context:
    return CONTEXT


def devices_or_fail(devices: Sequence[Any]) -> None:
    if not devices:
        raise RuntimeError("there is no device to run on; create a TTDevice, or pass a module to run_inference")
