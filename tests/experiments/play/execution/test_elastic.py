"""A real Ray whose nodes join and die in mid-run, until none is left and another comes; and what its workers are given."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.agents import make_agent
from costgym.agents.models.named import CACHE_VARIABLE, variables_of
from costgym.agents.models.openai import KEY_VARIABLE, URL_VARIABLE
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.leaderboard import run
from costgym.experiments.play.collect import collect
from costgym.experiments.play.execution.engine import Engine, Local, open_engine
from costgym.experiments.play.execution.ray_cluster import Ray, connected
from costgym.simulators.errors import ConfigError
from tests.helpers.ray_here import needs_ray, sent_whole

pytestmark = [needs_ray, pytest.mark.slow]
EPISODES = 1000
KEY = "sk-to-be-found-nowhere"


class Unhurried:
    """Plays as another agent does, but takes a break before every episode, so that there is time for nodes to come and go."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self.name, self.model, self.env_id = agent.name, agent.model, agent.env_id

    def reset(self, *arguments: Any, **more: Any) -> Any:
        time.sleep(0.02)
        return self._agent.reset(*arguments, **more)

    def act(self, *arguments: Any) -> Any:
        return self._agent.act(*arguments)

    def observe(self, *arguments: Any) -> Any:
        return self._agent.observe(*arguments)


def large(shared: int, task: int) -> Iterator[bytes]:
    """More than Ray sends along with the news that a task is done: it lies on the node that did it."""
    time.sleep(0.05)
    yield task.to_bytes(2, "big") * shared


def recorded(folder: Path, agent: Any, engine: Engine | None, progress: Any = None) -> bytes:
    env = costgym.make(agent.env_id, scenario="storm", budget={"price": 20}, disable_env_checker=True)
    return collect(env, agent, EPISODES, folder, seed=3, progress=progress, engine=engine).read_bytes()


@pytest.fixture
def by_value() -> Iterator[None]:
    with sent_whole(__name__):
        yield


@pytest.mark.usefixtures("by_value")
def test_nodes_that_join_and_die_change_nothing(tmp_path: Path) -> None:
    import ray
    from ray.cluster_utils import Cluster

    here = recorded(tmp_path / "here", make_agent("react"), None)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = {"first": cluster.add_node(num_cpus=1)}
    late: list[subprocess.Popen[bytes]] = []

    def start_late() -> None:
        """As a user does on a machine that is to join."""
        command = [Path(sys.executable).with_name("ray"), "start", "--block", "--address", cluster.address, "--num-cpus", "1"]
        late.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))

    def come_and_go(done: int, total: int) -> None:
        if done == 200:
            nodes["second"] = cluster.add_node(num_cpus=1)
        elif done == 500:
            cluster.remove_node(nodes["first"], allow_graceful=False)
        elif done == 700:
            cluster.remove_node(nodes["second"], allow_graceful=False)
            threading.Timer(2.0, start_late).start()  # until then the cluster has no processor

    try:
        with open_engine("ray", None, cluster.address) as engine:
            assert isinstance(engine, Ray)
            assert recorded(tmp_path / "there", Unhurried(make_agent("react")), engine, come_and_go) == here
            alive = {node["NodeID"]: node["Alive"] for node in ray.nodes() if node["Resources"].get("CPU") or not node["Alive"]}
            assert engine.tasks_by_node.keys() == alive.keys() and len(alive) == 3
            assert {node for node, lives in alive.items() if not lives} == {node.node_id for node in nodes.values()}
            assert engine.tasks_by_node.total() == EPISODES / 25

            third = cluster.add_node(num_cpus=2)
            taken = []
            for item in engine.stream(large, 200_000, range(60)):
                taken.append(item[:2])
                assert item == item[:2] * 200_000
                if len(taken) == 20:
                    time.sleep(2.0)  # results lie there untaken
                    cluster.remove_node(third, allow_graceful=False)
            assert taken == [task.to_bytes(2, "big") for task in range(60)]
    finally:
        for process in late:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def server() -> Iterator[tuple[str, set[str | None]]]:
    """Ends every conversation at once; the keys that it was shown."""
    keys: set[str | None] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            keys.add(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()
            message = {"role": "assistant", "content": "I do not know."}
            usage = {"prompt_tokens": 7, "completion_tokens": 5}
            self.wfile.write(json.dumps({"choices": [{"message": message}], "usage": usage}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{http.server_port}/v1", keys
    http.shutdown()
    http.server_close()


def test_a_models_key_server_and_cache_reach_workers_that_had_none(
    tmp_path: Path, server: tuple[str, set[str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, keys = server
    for name in (KEY_VARIABLE, URL_VARIABLE, CACHE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    with connected(None, 1) as ray:
        session = Path(ray._private.worker._global_node.get_session_dir_path())
        monkeypatch.setenv(URL_VARIABLE, url)  # from here on: what is set now, the workers' node was not started with
        plan = make_run_config("quick", agents=["react"], budgets="price=20", episodes=8, model="openai:tiny")
        monkeypatch.setenv(KEY_VARIABLE, KEY)
        monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
        with open_engine("ray", environment=variables_of(plan.model)) as engine:
            there = run(plan, tmp_path / "there", engine=engine).folder
        assert keys == {f"Bearer {KEY}"}
        assert (tmp_path / "cache" / "replies.sqlite").is_file()
        keys.clear()
        here = run(plan, tmp_path / "here", engine=Local(1)).folder
        assert keys == set()  # the workers kept every reply
        assert (there / "episodes.jsonl").read_bytes() == (here / "episodes.jsonl").read_bytes()

        monkeypatch.delenv(KEY_VARIABLE)
        monkeypatch.delenv(CACHE_VARIABLE)
        monkeypatch.setenv(URL_VARIABLE, "https://models.example/v1")
        with (
            open_engine("ray", environment=variables_of(plan.model)) as engine,
            pytest.raises(ConfigError, match=f"set the environment variable {KEY_VARIABLE} to the key of models.example"),
        ):
            run(plan, tmp_path / "keyless", engine=engine)
    written = [path for folder in (session, there) for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(written) > 10 and os.access(session, os.R_OK)
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []
