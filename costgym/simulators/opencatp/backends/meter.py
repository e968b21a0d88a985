"""Measure the duration and the peak memory of calls on a CPU or GPU."""

import contextlib
import ctypes
import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from costgym.simulators.errors import InfrastructureError, require

SAFE_SHARE = 0.8  # of the free memory


class Meter:
    """Time and memory of calls on a torch device, at most `limit_mb` (None: most of the free memory).

    `processor_time` counts the processor's time, on a machine that is shared. Raises InfrastructureError where resident memory
    cannot be read.
    """

    def __init__(self, device: str, limit_mb: float | None, processor_time: bool = False) -> None:
        self.device, self.limit_mb = device, limit_mb
        self._cuda: Any = require("torch", "vision").cuda if device.startswith("cuda") else None
        self._clock = time.process_time if processor_time else time.perf_counter
        resident_mb()

    def wait(self) -> None:
        """Wait until the device has finished all its work."""
        if self._cuda:
            self._cuda.synchronize(self.device)

    def rest(self) -> None:
        """Release unused memory, so that it is not attributed to the next measurement."""
        gc.collect()
        with contextlib.suppress(AttributeError, OSError):  # only glibc keeps freed memory and can be told to return it
            ctypes.CDLL(None).malloc_trim(0)
        if self._cuda:
            self._cuda.empty_cache()

    def held_mb(self) -> tuple[float, float]:
        """Memory in use by the process and on the GPU, MB."""
        return resident_mb(), self._cuda.memory_allocated(self.device) / 2**20 if self._cuda else 0.0

    def free_mb(self) -> float:
        """Memory that a run may use, MB."""
        if self.limit_mb is not None:
            return self.limit_mb
        if not self._cuda:
            return SAFE_SHARE * available_mb()
        return SAFE_SHARE * float(self._cuda.mem_get_info(self.device)[0]) / 2**20

    def seconds(self, run: Callable[[], object]) -> float:
        """Measure the duration of a call until the device has finished, seconds."""
        self.wait()
        began = self._clock()
        run()
        self.wait()
        return self._clock() - began

    def peak_mb(self, run: Callable[[], object]) -> tuple[float, float]:
        """Measure the peak memory of a call above the memory in use before it, of the process and on the GPU, MB."""
        before = self.held_mb()
        if self._cuda:
            self._cuda.reset_peak_memory_stats(self.device)
        highest, over = [before[0]], threading.Event()

        def watch() -> None:
            while not over.wait(0.002):
                highest[0] = max(highest[0], resident_mb())

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            run()
            self.wait()
        finally:
            over.set()
            watcher.join()
        peak = self._cuda.max_memory_allocated(self.device) / 2**20 if self._cuda else 0.0
        return max(0.0, highest[0] - before[0]), max(0.0, peak - before[1])


def resident_mb() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        raise InfrastructureError("resident memory cannot be read: no /proc/self/statm; measure on Linux") from None
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def available_mb() -> float:
    """Memory available without swapping, within the control group's limit, MB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable"))
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / file).read_text().strip() for file in ("memory.max", "memory.current"))
        return free if limit == "max" else min(free, (int(limit) - int(used)) / 2**20)
    except (OSError, ValueError):
        return free
