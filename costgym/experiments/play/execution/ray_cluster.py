"""Run tasks on a Ray cluster, either a running one or one started on this machine.

The results of a task come with the id of the node that did it, from Ray's own context. Environment variables that workers need,
such as a model's key, are sent with the tasks and not in Ray's runtime environment, because Ray logs that with its values.
"""

import itertools
import os
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from costgym.simulators import __version__, user_code
from costgym.simulators.errors import ConfigError, InfrastructureError, require

LOSSES = 5  # number of times that a task is repeated after its worker or node was lost
TASKS_PER_PROCESSOR = 4  # in flight: enough that none waits for the order of results, few enough to bound memory
COUNTED_S = 1.0  # interval between counts of the cluster's processors, seconds
PATIENCE_S = 30.0  # time without any processor after which a message is printed, seconds
AUTH_MODE, AUTH_TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"

_NO_SUCH_MODULE = "The remote function failed to import on the worker"  # how Ray says that a node has no costgym
_SLOW_START = "timed out during startup"  # what Ray says of a start of more than half a minute, on a busy machine

Pinned = tuple[str, bytes]  # the version of costgym that sends the work, and the work with what its tasks share, pickled


class Ray:
    """The engine of a Ray cluster, with one processor per task. Nodes may join and leave: a new node receives tasks, and the
    tasks of a lost node or worker are repeated elsewhere. At most `jobs` tasks, by default four for each present processor, are
    in flight; `tasks_by_node` counts those whose items were taken."""

    episodes_per_task: ClassVar[int] = 25

    def __init__(self, ray: Any, jobs: int | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._ray, self._jobs, self._environment = ray, jobs, dict(environment or {})
        self._counted_s, self._processors = float("-inf"), 1
        self.tasks_by_node: Counter[str] = Counter()

    def stream(self, work: Callable[[Any, Any], Iterable[Any]], shared: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        ray, supply = self._ray, iter(tasks)
        failures = ray.exceptions
        under_way: deque[Any] = deque()
        idle_since_s: float | None = None
        try:
            remote = ray.remote(num_cpus=1, max_retries=LOSSES, retry_exceptions=False)(_do_apart)
            # the driver's own node holds what is shared, so it outlives every other
            pinned = ray.put((__version__, ray.cloudpickle.dumps((work, shared, dict(user_code.known)))))
            while True:
                most = self._jobs or TASKS_PER_PROCESSOR * max(1, self._count())
                for task in itertools.islice(supply, max(0, most - len(under_way))):
                    under_way.append(remote.remote(pinned, self._environment, task))
                if not under_way:
                    return
                if not ray.wait([under_way[0]], timeout=COUNTED_S)[0]:  # nodes may have come while it waited
                    idle_since_s = self._say_if_idle(idle_since_s)
                    continue
                node, items = ray.get(under_way[0])
                under_way.popleft()
                self.tasks_by_node[node] += 1
                yield from items
        except failures.RayTaskError as error:
            if _NO_SUCH_MODULE in str(error.cause):
                problem = str(error.cause).strip().splitlines()[-1]
                raise ConfigError(
                    "--ray-address", f"a node lacks costgym ({problem}); install the same on every node"
                ) from error
            raise error.cause from error
        except failures.RayError as error:
            raise InfrastructureError(f"Ray lost what it ran ({error}); run the same command again to continue") from error
        finally:
            for reference in under_way:
                with suppress(Exception):  # where the cluster is gone, there is nothing left to cancel
                    ray.cancel(reference, force=False)

    def _count(self) -> int:
        """The cluster's processors, busy or free."""
        now = time.monotonic()
        if now - self._counted_s > COUNTED_S:
            self._counted_s = now
            self._processors = int(self._ray.cluster_resources().get("CPU", 0))
        return self._processors

    def _say_if_idle(self, since_s: float | None) -> float | None:
        """Print once that the cluster has no processor; return the time since when it has none."""
        if self._count():
            return None
        now = time.monotonic()
        if since_s is None:
            return now
        if now - since_s > PATIENCE_S:
            warnings.warn(
                "the Ray cluster has no processor left; waiting for a node (ray start --address=HOST:PORT)",
                RuntimeWarning,
                stacklevel=2,
            )
            return float("inf")
        return since_s


def _do_apart(pinned: Pinned, environment: Mapping[str, str], task: Any) -> tuple[str, list[Any]]:
    """Do one task on a worker of the cluster: the node's id and the task's items."""
    import ray

    version, packed = pinned
    if version != __version__:
        raise _unfit(ray, f"has costgym {__version__}, this command {version}; install the same on every node")
    with variables(environment):
        try:
            work, shared = _unpacked(ray, packed, environment)
        except (ImportError, AttributeError) as error:
            raise _unfit(ray, f"lacks what this command works with ({error}); install the same on every node") from error
        return ray.get_runtime_context().get_node_id(), list(work(shared, task))


def _unfit(ray: Any, problem: str) -> ConfigError:
    return ConfigError("--ray-address", f"the node {ray.util.get_node_ip_address()} {problem}")


_work_cache: list[tuple[bytes, Mapping[str, str], tuple[Any, Any]]] = []  # in a worker: its work, and what its tasks share


def _unpacked(ray: Any, packed: bytes, environment: Mapping[str, str]) -> tuple[Any, Any]:
    if not _work_cache or _work_cache[0][:2] != (packed, environment):
        work, shared, code = ray.cloudpickle.loads(packed)
        user_code.known.update(code)
        _work_cache[:] = [(packed, environment, (work, shared))]
    return _work_cache[0][2]


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables of this process for as long as the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def connected(address: str | None, processors: int) -> Generator[Any, None, None]:
    """Connect Ray to a running cluster (`host:port`, "auto", "ray://..."), or to one of so many processors that is started
    here, for a `with` block; an existing connection is used and kept. Raises InfrastructureError without an answer."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports to its makers unless told not to
    ray = require("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        _begin(ray, address, processors)
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()


def _begin(ray: Any, address: str | None, processors: int) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    here = {"num_cpus": processors, "include_dashboard": False}
    for attempt in (1, 2):
        try:
            ray.init(**quiet, **({"address": "local", **here} if address is None else {"address": address}))
            return
        except Exception as error:  # Ray raises plain ones too
            if address is None and attempt == 1 and _SLOW_START in str(error):
                continue
            cluster = address or "this machine"
            raise InfrastructureError(f"no Ray cluster answers at {cluster}: {error}{_advice(address)}") from error


def _advice(address: str | None) -> str:
    """Advice for a named cluster that does not answer."""
    if address is None or os.environ.get(AUTH_MODE, "").lower() == "token":
        return ""
    # a token is never sent to an address that was given unless the user says so
    return f"; if the cluster asks for a token, set {AUTH_MODE}=token, and {AUTH_TOKEN} to it or copy ~/.ray/auth_token"
