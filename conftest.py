"""Settings of the tests, and which modules are searched for examples."""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import costgym
from costgym import MissingExtra

# A busy machine makes an example slow, not wrong; the same code meets the same examples.
settings.register_profile("costgym", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("costgym"), max_examples=25)
# `make soak` ends it
settings.register_profile("soak", settings.get_profile("costgym"), max_examples=10_000, derandomize=False)


def pytest_configure(config: pytest.Config) -> None:
    """Meet fewer examples where slow tests are left out, and wait for no disk."""
    os.fsync = lambda handle: None  # what it guards against is a power cut, which no test can make
    if config.getoption("--hypothesis-profile") is None:
        settings.load_profile("quick" if "not slow" in config.option.markexpr else "costgym")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than there are processors: many tests wait for a browser, a server or a command."""
    return (os.cpu_count() or 1) + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules of the package without an example, or with one that needs an extra that is not installed."""
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(config.rootpath / "costgym"):
        return None
    if ">>> " not in collection_path.read_text(encoding="utf-8"):
        return True  # else all modules would be imported
    try:
        importlib.import_module(
            ".".join(collection_path.relative_to(config.rootpath).with_suffix("").parts).removesuffix(".__init__")
        )
    except MissingExtra:
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Search no file of tests for examples that has none: every process would do so."""
    found = yield
    if file_path.suffix == ".py" and ">>> " not in file_path.read_text(encoding="utf-8"):
        found = [each for each in found if type(each) is pytest.Module]
    return found


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of the search for garbage, and search less often: it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the examples of the native environments, which compile them."""
    if item.nodeid.startswith("costgym/envs/vector/"):
        item.add_marker("native")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first native test of a process, compile what most of them play."""
    if item.get_closest_marker("native"):
        compile_environments()


@cache
def compile_environments() -> None:
    """Compile both native environments, batches and single ones, each in one process while another compiles the other."""
    if importlib.util.find_spec("numba") is None:
        return
    import fcntl  # which Windows has not

    names = ["costgym/MarketplaceSession-v1", "costgym/Marketplace-v0"]
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        names.reverse()
    folder = Path(costgym.__file__).with_name("__pycache__")  # near what the locks guard, the kernels on disk
    folder.mkdir(exist_ok=True)
    for name in names:
        with (folder / f"{name.replace('/', '-')}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for env in (costgym.make_vec(name, 2), costgym.make(name, compiled=True)):
                env.reset(seed=0)
                env.step(env.action_space.sample())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A scripted model server at the address that models ask by default; it needs no key."""
    from tests.helpers.model_server import Server

    served = Server()
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", served.url)
    monkeypatch.setenv("COSTGYM_CACHE", "")  # `--cache` sets it in this process
    yield served
    served.close()
