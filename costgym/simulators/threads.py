"""Threads of PyTorch, which change results."""

from collections.abc import Iterator
from contextlib import contextmanager

from costgym.simulators.errors import require


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use a number of threads inside the block; another number adds up in another order, and gives other weights."""
    torch = require("torch", "train")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
