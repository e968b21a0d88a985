"""Make environments by id; an unknown id raises an error with the nearest names."""

import ast
import importlib
import importlib.util
import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from costgym.envs.base import BaseEnv, with_step_limit
from costgym.simulators.errors import ConfigError, UnknownName, check_known

if TYPE_CHECKING:
    from costgym.simulators.scenario import Scenario

NATIVE_ARGUMENTS = ("threads", "copy", "all_tables", "factored")  # arguments of the native batch that no single environment has


GYM_ARGUMENTS = tuple(name for name in inspect.signature(gym.make).parameters if name not in ("id", "kwargs"))
"""Arguments of `gymnasium.make` itself."""


def _known() -> list[str]:
    return sorted(name for name in gym.registry if name.startswith("costgym/"))


def make(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make an environment of costgym, as `gymnasium.make` does.

    Args:
        env_id: id, such as ``costgym/Marketplace-v0``.
        kwargs: arguments of the environment and of `gymnasium.make`.

    Raises:
        UnknownName: the id is unknown; the message has the nearest ones.
        CostGymError: an argument is invalid; the message names it.
    """
    if env_id not in gym.registry:
        raise UnknownName("environment", env_id, _known())
    if env_id in _known():  # not someone else's environment
        known = [*parameters_of(env_id), *GYM_ARGUMENTS]
        for name in kwargs:
            check_known(f"argument of {env_id}", name, known)
    return gym.make(gym.spec(env_id), **kwargs)  # of an id with a successor Gymnasium warns; version 0 is none the worse


def make_vec(
    env_id: str, num_envs: int = 1, *, device: str = "cpu", tensors: bool = False, graph: bool | None = None, **kwargs: Any
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make a vector environment: the native one of the marketplace in numbers, otherwise Gymnasium's.

    Args:
        env_id: id, such as ``costgym/Marketplace-v0``.
        num_envs: number of environments.
        device: where the native environment lies and plays: ``cpu``, ``cuda`` or ``cuda:N``. On a GPU it takes and returns
            PyTorch tensors there.
        tensors: take and return PyTorch tensors on the CPU too, which share the arrays' memory.
        graph: capture a step as a CUDA graph and replay it, which takes the host no time; it needs a GPU and ``copy=False``,
            and None does so wherever both are there.
        kwargs: arguments of the environment and of `gymnasium.make_vec`.

    Raises:
        ConfigError: there is no such device, an argument of the native environment is given for another one, or `num_envs` is
            not positive or does not fit into memory.
        MissingExtra: an extra that the arguments need is not installed.
        UnknownName: the id is unknown; the message has the nearest ones.
    """
    if env_id not in gym.registry:
        raise UnknownName("environment", env_id, _known())
    if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
        raise ConfigError("num_envs", f"expected a positive whole number, got {num_envs!r:.60}")
    if gym.spec(env_id).vector_entry_point is None:
        of_native = {"device": device != "cpu", "tensors": tensors, "graph": graph}
        of_native |= {name: name in kwargs for name in NATIVE_ARGUMENTS}
        if refused := [name for name, passed in of_native.items() if passed]:
            raise ConfigError(refused[0], f"is for costgym/Marketplace-v0, which has a native batch; {env_id} has none")
    if device != "cpu" or tensors or graph:
        from costgym.envs.vector.device import make_on_device

        return make_on_device(env_id, num_envs, device, graph, **kwargs)
    made = gym.make_vec(gym.spec(env_id), num_envs=num_envs, **kwargs)
    if isinstance(made, gym.vector.SyncVectorEnv | gym.vector.AsyncVectorEnv):
        inner = made.get_attr("spec")[0]  # Gymnasium copies the registered one, which knows no step limit
        made.spec = with_step_limit(made.spec, None if inner is None else inner.max_episode_steps)
    return made


def parameters_of(env_id: str) -> dict[str, Any]:
    """The arguments of an environment by name, with their defaults."""
    return {name: parameter.default for name, parameter in inspect.signature(class_of(env_id)).parameters.items()}


def describe(env_id: str) -> str:
    """The first line of an environment's docstring."""
    check_environment(env_id)
    text = (ast.get_docstring(_definitions(str(gym.spec(env_id).entry_point))[0]) or "").splitlines()[0].split(": ", 1)[-1]
    return text[:1].upper() + text[1:]


_LANGUAGE, _AUTHORS = "benchmark of language agents", "reproduction of a paper's task"
USES = {
    "costgym/Marketplace-v0": "smoke test of learners: an index is near its optimum",
    "costgym/MarketplaceChat-v0": _LANGUAGE,
    "costgym/MarketplaceChat-v1": _LANGUAGE,
    "costgym/MarketplaceSession-v0": "benchmark of learners",
    "costgym/MarketplaceSession-v1": "benchmark of learners and planners",
    "costgym/MarketplaceSessionChat-v0": _LANGUAGE,
    "costgym/MarketplaceSessionChat-v1": _LANGUAGE,
    "costgym/OpenCATP-v0": _AUTHORS,
    "costgym/OpenCATP-v1": _AUTHORS,
    "costgym/OpenCATPChat-v0": _AUTHORS,
    "costgym/OpenCATPChat-v1": _AUTHORS,
    "costgym/OpenCATPCalls-v0": "smoke test of calls over a paper's tools",
    "costgym/DecisionAware-v0": _AUTHORS,
}
"""What each environment is good for."""


def worlds_of(env_id: str) -> tuple[int, ...]:
    """The versions of the world that an environment plays."""
    check_environment(env_id)
    return _worlds_of_class(str(gym.spec(env_id).entry_point))


@cache
def _worlds_of_class(entry_point: str) -> tuple[int, ...]:
    stated = [node for definition in _definitions(entry_point) for node in definition.body if isinstance(node, ast.Assign)]
    worlds = (node.value for node in stated if [ast.unparse(target) for target in node.targets] == ["worlds"])
    versions: tuple[int, ...] = next(map(ast.literal_eval, worlds), BaseEnv.worlds)
    return versions


def _definitions(entry_point: str) -> list[ast.ClassDef]:
    """A class and its bases in the same file, which is read: importing all environments takes a second."""
    module, _, name = entry_point.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    parsed = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    classes = {node.name: node for node in parsed.body if isinstance(node, ast.ClassDef)}
    chain = [classes[name]]
    while (base := ast.unparse(chain[-1].bases[0]) if chain[-1].bases else "") in classes:
        chain.append(classes[base])
    return chain


def versions_of(env_id: str) -> tuple[int, ...]:
    """The versions of the world that some version of an environment plays, in order."""
    return tuple(sorted({world for known in _alike(env_id) for world in worlds_of(known)}))


def in_version(env_id: str, world: int) -> str:
    """The id of the same environment that plays a version of the world; raises ConfigError where none does."""
    if (env_of_world := next((known for known in _alike(env_id) if world in worlds_of(known)), None)) is None:
        raise ConfigError("env", f"expected an environment of version {world} of the world, got {env_id}, which has none")
    return env_of_world


def default_id(view: str, scenario: "Scenario | None" = None, first: int | None = None) -> str:
    """The id that is played where no version is named: that of the version of the world that the scenario states. Where it
    states none, the version `first`, or the newest.

    >>> default_id("costgym/MarketplaceChat-v0"), default_id("costgym/Marketplace-v0")
    ('costgym/MarketplaceChat-v1', 'costgym/Marketplace-v0')
    """
    versions = sorted(versions_of(view), key=lambda version: (version == first, version), reverse=True)
    return in_version(view, versions[0] if scenario is None else scenario.in_world(*versions).world)


def _alike(env_id: str) -> list[str]:
    """All versions of an environment's id."""
    return [known for known in _known() if known.rpartition("-v")[0] == env_id.rpartition("-v")[0]]


def check_environment(env_id: str) -> None:
    """Raise UnknownName, which names the nearest ids, unless there is such an environment of costgym; imports none."""
    check_known("environment", env_id, _known())


def class_of(env_id: str) -> type[BaseEnv[Any, Any]]:
    """The class of an environment."""
    check_environment(env_id)
    entry = gym.spec(env_id).entry_point
    assert isinstance(entry, str)
    module, _, name = entry.partition(":")
    env_class: type[BaseEnv[Any, Any]] = getattr(importlib.import_module(module), name)
    return env_class
