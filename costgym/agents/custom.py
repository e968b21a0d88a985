"""A user's own agent by name: ``FILE.py:CLASS``, or ``package.module:CLASS`` for what is installed."""

import importlib
import importlib.util
import re
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from costgym.agents.base import Agent
from costgym.simulators.errors import ConfigError, DataError, UnknownName

_NAME = re.compile(r"(?P<module>[^:]+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+):(?P<attribute>[A-Za-z_]\w*)")


def is_custom(name: str) -> bool:
    """Return whether a name refers to a user's own agent."""
    return _NAME.fullmatch(name) is not None


def custom_agent(name: str) -> Agent:
    """A user's own agent, ``FILE.py:CLASS`` or ``package.module:CLASS``, or a function that returns one; its code is run.

    Raises DataError where it cannot be read or raises, and ConfigError where it makes no `Agent` or one that reads the world.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigError("agent", f"expected FILE.py:CLASS or package.module:CLASS, got {name!r}")
    path = match["module"]
    module = _file(str(Path(path).resolve())) if path.endswith(".py") else _module(path)
    make = getattr(module, match["attribute"], None)
    if make is None:
        raise UnknownName(f"agent in {path}", match["attribute"], [n for n in vars(module) if not n.startswith("_")])
    if missing := sorted(getattr(make, "__abstractmethods__", ())):
        raise ConfigError(
            "agent", f"expected {name!r} to have the methods of costgym.agents.Agent; missing: {', '.join(missing)}"
        )
    made = make()
    if not isinstance(made, Agent):
        raise ConfigError("agent", f"expected {name!r} to make a costgym.agents.Agent, got {type(made).__name__}")
    if made.privileged:
        raise ConfigError("agent", f"{name} is privileged; only costgym's own bounds may see the world")
    made.brokered = False
    # on the leaderboard it goes by the name it was asked for: two classes may call themselves the same
    made.name = name
    return made


@lru_cache(maxsize=32)
def _file(path: str) -> ModuleType:
    stem = re.sub(r"\W", "_", path)
    spec = importlib.util.spec_from_file_location(f"costgym_own{stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise DataError(path, "expected a Python file with an agent")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        raise DataError(path, f"{type(error).__name__}: {error}") from error
    return module


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DataError(name, f"cannot be imported: {error}") from error
