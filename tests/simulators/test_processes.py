"""Processes of SimPy beside an episode: what a user adds to the world in ten lines."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.envs.marketplace import MarketplaceEnv
from costgym.experiments.play.execution.engine import Local
from costgym.simulators import user_code
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import load_scenario, parse_scenario
from costgym.simulators.status import Status
from tests.helpers.worlds import small_world, state, story, tool

EXAMPLES = Path(__file__).parents[2] / "examples" / "processes"
DESK = """
name: desk
budget: {price: 20}
source:
  kind: own
  tools:
    - {name: a, capability: c, profile: {fee: 4, latency_s: 1.0, concurrency: 1}}
  tasks:
    - {query: Find it., needs: [{capability: c, fact: F-1}]}
processes: PROCESS.py
"""


@pytest.fixture
def desk(tmp_path: Path) -> Any:
    def scenario(name: str) -> Any:
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path)
        (tmp_path / "desk.yaml").write_text(DESK.replace("PROCESS", name))
        return load_scenario(tmp_path / "desk.yaml")

    return scenario


def test_a_rival_tenant_takes_slots_and_calls_wait_for_them(desk: Any) -> None:
    episode = desk("rival").build().episode(0, 1)
    waits = []
    for _ in range(6):
        call = episode.call(0)
        waits.append(call.started_s - call.submitted_s)
        episode.advance(1.0)
    assert max(waits) > 0.5 and min(waits) == 0.0
    other = desk("rival").build().episode(0, 2)
    assert other.call(0).status is Status.OK
    for _ in range(5):
        other.advance(1.0)
        other.call(0)
    assert [call.started_s for call in other.calls] != [call.started_s for call in episode.calls]


def test_an_outage_comes_from_a_trace(desk: Any) -> None:
    episode = desk("outage").build().episode(0)
    for _ in range(8):
        episode.call(0)
        episode.advance(0.5)
    assert [(call.started_s, call.status.label) for call in episode.calls] == [
        (0.0, "ok"), (1.5, "ok"), (3.0, "outage"), (4.5, "outage"), (6.0, "ok"), (7.5, "ok"), (9.0, "ok"), (10.5, "outage"),
    ]  # fmt: skip


def test_a_price_follows_demand(desk: Any) -> None:
    episode = desk("demand").build().episode(0)
    assert [episode.call(0).price for _ in range(4)] == [4.0, 5.0, 6.25, 7.8125]
    assert [notice.kind for notice in episode.notices()] == ["price_change"] * 4


@pytest.mark.parametrize("name", ["rival", "outage", "demand"])
def test_forks_and_copies_of_an_episode_have_its_process(name: str, desk: Any) -> None:
    episode = desk(name).build().episode(0, 5)
    episode.call(0)
    episode.advance(2.5)
    fork = episode.fork()
    for played in (episode, fork):
        played.call(0)
        played.advance(4.0)
        played.call(0)
    assert state(fork) == state(episode)


def test_a_process_may_be_given_to_an_episode_that_has_begun() -> None:
    def rival(episode: Any) -> Any:
        episode.hold()
        yield episode.clock.timeout(3.0)
        episode.release()

    episode = small_world(tool("a"), tool("b", 1), slots=1).episode(0)
    episode.process(rival)
    first, second = episode.submit(0), episode.submit(1)
    while episode.in_flight:
        episode.wait()
    assert (first.started_s, second.started_s) == (3.0, 4.0)
    assert story(episode.fork()) == story(episode)
    with pytest.raises(ConfigError, match="expected a slot that is held"):
        episode.release()
    with pytest.raises(ConfigError, match="expected a generator function"):
        episode.process(rival(episode))  # type: ignore[arg-type]


def test_the_file_is_part_of_the_world_and_code_is_never_taken_from_a_record(desk: Any, tmp_path: Path) -> None:
    scenario = desk("outage")
    document = scenario.model_dump(mode="json")
    assert document["processes"]["file"] == "outage.py" and "import" not in str(document)
    assert parse_scenario(document).digest == scenario.digest != load_scenario_without(tmp_path).digest
    assert pickle.loads(pickle.dumps(scenario)).build().processes
    user_code.known.clear()
    with pytest.raises(ConfigError, match=r"outage\.py"):
        parse_scenario({**document, "name": "another"}).build()
    with pytest.raises(DataError, match="no code in what a record extends"):
        parse_scenario({"name": "x", "extends": str(tmp_path / "desk.yaml")})
    (tmp_path / "outage.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match="found none"):
        load_scenario(tmp_path / "desk.yaml").build()
    (tmp_path / "outage.py").write_text("def :\n")
    with pytest.raises(DataError, match="expected a Python file"):
        load_scenario(tmp_path / "desk.yaml")


def prices(document: dict[str, Any], calls: int) -> list[float]:
    """What so many calls cost in the world of a document, as a worker plays it."""
    episode = parse_scenario(document).build().episode(0, 0, Budget())
    return [episode.call(0).price for _ in range(calls)]


def test_worker_processes_play_the_file_that_the_user_has_named(desk: Any) -> None:
    document = desk("demand").model_dump(mode="json")
    assert list(Local(jobs=2).stream(prices, document, [2, 2])) == 2 * prices(document, 2)


def load_scenario_without(folder: Path) -> Any:
    """The same scenario without its process."""
    (folder / "plain.yaml").write_text((folder / "desk.yaml").read_text().replace("processes: outage.py", ""))
    return load_scenario(folder / "plain.yaml").model_copy(update={"name": "desk"})


def test_an_environment_plays_a_process_and_compiled_forms_refuse_it(desk: Any) -> None:
    scenario = desk("demand")
    env = MarketplaceEnv(scenario=scenario)
    env.reset(seed=0)
    prices = [env.step(0)[4]["cost_price"] for _ in range(2)]
    assert prices[0] == 4.0
    pytest.importorskip("numba", reason="needs the extra `train`")
    for make in (
        lambda: costgym.make("costgym/Marketplace-v0", scenario=scenario, compiled=True).reset(seed=0),
        lambda: costgym.make_vec("costgym/Marketplace-v0", num_envs=2, scenario=scenario).reset(seed=0),
    ):
        with pytest.raises(ConfigError, match="compiled=False"):
            make()
