"""What the tests on a real Ray share. They have a token of their own, so that nothing is written to the home folder."""

import importlib.util
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='ray is not installed: pip install "costgym[ray]"'
)
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@contextmanager
def sent_whole(module: str) -> Iterator[None]:
    """Workers do not find the modules of the tests, so their functions and classes are sent by value."""
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    cloudpickle.register_pickle_by_value(sys.modules[module])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[module])
