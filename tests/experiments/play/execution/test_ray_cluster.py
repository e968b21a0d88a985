"""A cluster whose nodes come and go, and what its workers are given: with a stand-in for Ray that does the tasks here."""

import os
import pickle
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import costgym
from costgym.agents.models.named import CACHE_VARIABLE, variables_of
from costgym.agents.models.openai import KEY_VARIABLE, URL_VARIABLE
from costgym.experiments.board.board import Entries, WorkItem, play_item
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.play.execution import ray_cluster as clusters
from costgym.experiments.play.execution.engine import open_engine
from costgym.experiments.play.execution.ray_cluster import Ray
from costgym.simulators.errors import ConfigError, InfrastructureError


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Cluster:
    """Does a task when its result is asked for. A second passes with every look at one; `processors` are counted in turn."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    cloudpickle = pickle
    util = SimpleNamespace(get_node_ip_address=lambda: "10.0.0.7")

    def __init__(self, processors: list[int], ready_after: int = 0) -> None:
        self.processors, self.waits = processors, ready_after
        self.now_s = 0.0
        self.submitted = self.taken = 0
        self.sent: list[Any] = []
        self.submitted_at: list[int] = []
        self.refusals: list[str] = []
        self.begun: list[str] = []

    # -- what `clusters` uses of Ray -----------------------------------------------------------------------------------------

    def remote(self, **options: Any) -> Any:
        assert options == {"num_cpus": 1, "max_retries": clusters.LOSSES, "retry_exceptions": False}
        return lambda function: SimpleNamespace(remote=lambda *arguments: self._submit(function, arguments))

    def _submit(self, function: Any, arguments: Any) -> Any:
        self.submitted += 1
        self.sent.append(arguments)
        return function, arguments

    def put(self, value: Any) -> Any:
        return value

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        self.submitted_at.append(self.submitted)
        self.now_s += 1.001 * timeout
        self.waits -= 1
        return (references, []) if self.waits < 0 else ([], references)

    def get(self, reference: Any) -> Any:
        function, arguments = reference
        self.taken += 1
        try:
            return function(*arguments)
        except Exception as error:
            raise RayTaskError(error) from error

    def cancel(self, reference: Any, force: bool) -> None:
        raise RayError("gone")

    def cluster_resources(self) -> dict[str, float]:
        count = self.processors.pop(0) if len(self.processors) > 1 else self.processors[0]
        return {"CPU": float(count)} if count else {}

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: f"node{self.taken % 2}")

    def is_initialized(self) -> bool:
        return not self.refusals

    def init(self, **options: Any) -> None:
        self.begun.append(options["address"])
        if self.refusals:
            raise RuntimeError(self.refusals.pop(0))

    def shutdown(self) -> None:
        self.begun.append("shutdown")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a cluster in Ray's place."""

    def put(cluster: Cluster) -> Cluster:
        monkeypatch.setitem(sys.modules, "ray", cluster)  # type: ignore[arg-type]
        monkeypatch.setattr(clusters, "time", SimpleNamespace(monotonic=lambda: cluster.now_s))
        monkeypatch.setattr(clusters, "_work_cache", [])
        return cluster

    return put


def twice(shared: int, task: int) -> Iterator[int]:
    yield shared + task
    yield shared + task


def variables(shared: None, names: tuple[str, ...]) -> Iterator[dict[str, str | None]]:
    yield {name: os.environ.get(name) for name in names}


def test_tasks_are_counted_by_the_node_that_did_them(stand_in: Any) -> None:
    engine = Ray(stand_in(Cluster([2])))
    assert list(engine.stream(twice, 10, range(5))) == [10, 10, 11, 11, 12, 12, 13, 13, 14, 14]
    assert engine.tasks_by_node == {"node1": 3, "node0": 2}


def test_nodes_that_join_while_a_task_takes_long_are_given_tasks(stand_in: Any) -> None:
    cluster = stand_in(Cluster([1, 1, 3, 2], ready_after=3))
    stream = Ray(cluster).stream(twice, 0, range(100))
    assert next(stream) == 0
    assert cluster.submitted_at == [4, 4, 12, 12]  # two processors less: nothing is taken back, nothing more is given
    assert [next(stream), next(stream)] == [0, 1]
    assert cluster.submitted == 12
    stream.close()  # type: ignore[attr-defined]


def test_a_cluster_without_processors_is_waited_for_and_that_is_said_once(stand_in: Any) -> None:
    cluster = stand_in(Cluster([0] * 70 + [1], ready_after=71))
    with pytest.warns(RuntimeWarning, match="no processor left; waiting for a node") as warned:
        assert list(Ray(cluster).stream(twice, 0, range(2))) == [0, 0, 1, 1]
    assert len(warned) == 1


def test_workers_have_the_variables_while_they_work_and_not_afterwards(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("COSTGYM_A", "COSTGYM_B", "COSTGYM_C")
    for name, value in zip(names, ("1", "2", "3"), strict=True):
        monkeypatch.setenv(name, value)
    stand_in(Cluster([1]))
    with open_engine("ray", environment=("COSTGYM_A", "COSTGYM_B", "COSTGYM_UNSET")) as engine:
        monkeypatch.setenv("COSTGYM_A", "the node's")
        monkeypatch.delenv("COSTGYM_B")
        seen = list(engine.stream(variables, None, [names, names]))
    assert seen == [{"COSTGYM_A": "1", "COSTGYM_B": "2", "COSTGYM_C": "3"}] * 2
    assert os.environ["COSTGYM_A"] == "the node's" and "COSTGYM_B" not in os.environ


def test_only_what_the_runs_model_reads_is_sent() -> None:
    assert variables_of("openai:tiny,temperature=1") == (KEY_VARIABLE, URL_VARIABLE, CACHE_VARIABLE)
    assert variables_of("local:folder") == (CACHE_VARIABLE,)
    assert variables_of("simulated") == ()


def test_a_node_of_another_version_is_refused_by_its_address(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(Cluster([1]))
    stream = Ray(sys.modules["ray"]).stream(twice, 0, range(3))
    assert next(stream) == 0
    monkeypatch.setattr(clusters, "__version__", "9.9")
    with pytest.raises(ConfigError) as refused:
        list(stream)
    message = f"the node 10.0.0.7 has costgym 9.9, this command {costgym.__version__}; install the same on every node"
    assert message in str(refused.value)


def test_a_worker_without_a_key_says_which_variable_to_set(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv(URL_VARIABLE, "https://models.example/v1")
    plan = make_run_config("quick", agents=["react"], budgets="price=20", episodes=2, model="openai:gpt-4o-2024-05-13")
    stand_in(Cluster([1]))
    with (
        open_engine("ray", environment=variables_of(plan.model)) as engine,
        pytest.raises(ConfigError, match=f"set the environment variable {KEY_VARIABLE} to the key of models.example"),
    ):
        list(engine.stream(play_item, Entries(plan, {}), [WorkItem("text", "react", 0, 0, 1)]))


def test_a_node_without_costgym_and_a_cluster_that_is_gone_are_told_apart(stand_in: Any) -> None:
    def fail(error: Exception) -> Any:
        def get(reference: Any) -> Any:
            raise error

        return get

    cluster = stand_in(Cluster([1]))
    message = f"{clusters._NO_SUCH_MODULE}.\n\nModuleNotFoundError: No module named 'costgym'\n"
    cluster.get = fail(RayTaskError(RuntimeError(message)))
    with pytest.raises(ConfigError, match=r"a node lacks costgym \(ModuleNotFoundError: No module named 'costgym'"):
        list(Ray(cluster).stream(twice, 0, range(2)))
    cluster.get = fail(RayError("the owner died"))
    with pytest.raises(InfrastructureError, match=r"Ray lost what it ran \(the owner died\); run the same command again"):
        list(Ray(cluster).stream(twice, 0, range(2)))


def test_ray_is_started_once_more_where_its_start_took_too_long(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    slow = "The current node timed out during startup."
    cluster = stand_in(Cluster([1]))
    cluster.refusals = [slow]
    with open_engine("ray", 1) as engine:
        assert list(engine.stream(twice, 0, range(1))) == [0, 0]
    assert cluster.begun == ["local", "local", "shutdown"]
    for address, refusals, message in (
        (None, [slow, slow], "no Ray cluster answers at this machine: The current node timed out during startup."),
        (
            "10.0.0.1:6379",
            ["no"],
            "no Ray cluster answers at 10.0.0.1:6379: no; if the cluster asks for a token, set RAY_AUTH_MODE",
        ),
    ):
        cluster.refusals = refusals
        with pytest.raises(InfrastructureError) as refused, open_engine("ray", 1, address):
            pass
        assert str(refused.value).startswith(message)
        assert cluster.refusals == []
