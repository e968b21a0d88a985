"""Episodes of the two OpenCATP views as records: what they hold, resuming, replay, forgeries, agents that play there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import costgym
from costgym.agents.base import Agent
from costgym.agents.registry import agent_names, find_agent, make_agent
from costgym.envs import tpl
from costgym.envs.opencatp import calls as opencatp_calls
from costgym.experiments.board.verify import verify
from costgym.experiments.play.collect import collect
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.rollout import rollout
from costgym.experiments.play.trajectories.format import Header, Trajectory, seal_of
from costgym.experiments.play.trajectories.record import record
from costgym.simulators.opencatp import all_tasks, v100
from costgym.simulators.opencatp.profile import profile_record
from costgym.simulators.opencatp.scoring.evaluation import shipped_outcomes
from costgym.simulators.opencatp.scoring.table import TABLE
from tests.helpers.opencatp_runs import CALLS, PLAN, VIEWS, collection, view, view_of
from tests.helpers.opencatp_scores import RuleScores
from tests.helpers.records import leaf_paths, tampered

IN = "input_of_query"


class Script(Agent):
    """Does what it is told, by name."""

    name = "script"

    def __init__(self, env_id: str, *moves: str) -> None:
        self.env_id, self._moves = env_id, moves

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        names = tpl.ACTION_NAMES if self.env_id == PLAN else (*opencatp_calls.CALL_NAMES, "wait", "finish")
        self._left = [names.index(move) for move in self._moves]

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return self._left.pop(0)


def played(env_id: str, task: int, *moves: str, seed: int = 3, **settings: Any) -> Trajectory:
    form = {"concurrent": True} if env_id == CALLS else {}
    return record(view(env_id, **form, **settings), Script(env_id, *moves), task, seed)[0]


WRITE = (
    "image_denoising", f"after {IN}", "EOD", "image_captioning", "after image_denoising", "EOD", "object_detection",
    f"after {IN}", "EOD", "EOP",
)  # fmt: skip


# -- what a record holds -------------------------------------------------------------------------------------------------


def test_a_written_plan_is_recorded_as_it_runs() -> None:
    recorded = played(PLAN, 226, *WRITE, level=0)
    profile = v100()
    tools = ("image_denoising", "image_captioning", "object_detection")
    denoise, caption, detect = (profile.seconds(tool, 0) for tool in tools)
    prices = {tool: profile.price(tool, 0) for tool in tools}
    assert recorded.calls == [
        ["image_denoising", "ok", 0.0, 0.0, denoise, False, prices["image_denoising"]],
        ["image_captioning", "ok", denoise, denoise, denoise + caption, False, prices["image_captioning"]],
        ["object_detection", "ok", 0.0, 0.0, detect, False, prices["object_detection"]],
    ]
    assert recorded.charges == [
        [0.0, "plan", 0.0, 13, 0],
        [detect, "object_detection", prices["object_detection"], 0, 1],
        [denoise, "image_denoising", prices["image_denoising"], 0, 1],
        [denoise + caption, "image_captioning", prices["image_captioning"], 0, 1],
    ]
    sample = recorded.final["sample"]
    assert (recorded.task, recorded.number, recorded.seed) == (f"nonsequential-226-sample-{sample}", 226, 3)
    final = recorded.final
    assert (final["price"], final["seconds"]) == (sum(prices.values()), denoise + caption)
    assert (final["tokens"], final["calls"], final["attempts"], final["plan_valid"]) == (13, 3, 3, True)
    assert final["share"] == final["score"] > 0.0
    assert final["quality_of_plan"] == pytest.approx(sum(recorded.rewards), abs=1e-12)
    assert (final["size_level"], final["exceeded"], recorded.truncated, recorded.model) == (0, None, False, "")
    assert len(recorded.observations) == len(recorded.actions) + 1 == 11


def test_calls_side_by_side_are_recorded_at_their_times() -> None:
    moves = (f"image_captioning on {IN}", f"object_detection on {IN}", "wait", "wait", "finish")
    recorded = played(CALLS, 226, *moves, level=1)
    caption, detect = (v100().seconds(tool, 1) for tool in ("image_captioning", "object_detection"))
    paid = {tool: v100().price(tool, 1) for tool in ("image_captioning", "object_detection")}
    assert recorded.calls == [
        ["image_captioning", "ok", 0.0, 0.0, caption, False, paid["image_captioning"]],
        ["object_detection", "ok", 0.0, 0.0, detect, False, paid["object_detection"]],
    ]
    assert recorded.charges == [
        [detect, "object_detection", paid["object_detection"], 0, 1],
        [caption, "image_captioning", paid["image_captioning"], 0, 1],
    ]
    assert recorded.actions == [(*opencatp_calls.CALL_NAMES, "wait", "finish").index(move) for move in moves]
    assert (recorded.final["seconds"], recorded.final["tokens"], recorded.final["plan_valid"]) == (caption, 0, True)


def test_a_call_cut_off_while_it_loads_costs_nothing_and_one_cut_off_while_it_runs_its_part() -> None:
    tools = {tool: replace(cost, cold_start_s=0.5) for tool, cost in v100().tools.items()}
    profile = replace(v100(), name="cold", tools=tools)
    moves = (f"object_detection on {IN}", f"image_captioning on {IN}", "wait", "finish")
    recorded = played(CALLS, 24, *moves, level=0, slots=1, cold_starts=True, profile=profile)
    end = 0.5 + profile.seconds("object_detection", 0)
    assert recorded.calls == [
        ["object_detection", "ok", 0.0, 0.0, end, True, profile.price("object_detection", 0)],
        ["image_captioning", "cancelled", 0.0, end, end, True, 0.0],
    ]
    assert [charge[1] for charge in recorded.charges] == ["object_detection"]
    moves = (f"image_captioning on {IN}", f"object_detection on {IN}", "wait", "finish")
    recorded = played(CALLS, 24, *moves, level=0)
    (tool, status, _, _, ended, _, price), detection = recorded.calls
    whole, part = v100().seconds("image_captioning", 0), v100().seconds("object_detection", 0)
    assert (tool, status, ended, detection[1]) == ("image_captioning", "cancelled", part, "ok")
    assert price == pytest.approx(2e-7 + (v100().price(tool, 0) - 2e-7) * part / whole, rel=1e-9)


def test_a_token_that_is_not_allowed_is_refused_and_the_plan_goes_on() -> None:
    recorded = played(PLAN, 226, WRITE[0], "EOD", *WRITE[1:], level=0)
    assert recorded.calls == played(PLAN, 226, *WRITE, level=0).calls
    final = recorded.final
    assert (final["plan_valid"], final["calls"], final["attempts"]) == (True, 3, 4)
    assert final["quality_of_plan"] == pytest.approx(sum(recorded.rewards), abs=1e-12)


def test_an_episode_cut_off_by_its_step_limit_is_given_up() -> None:
    recorded = played(CALLS, 24, f"image_captioning on {IN}", "wait", max_steps=2)
    assert recorded.truncated and recorded.calls[0][1] == "ok"
    assert (recorded.final["score"], recorded.final["plan_valid"], recorded.final["strict"]) == (0.0, False, False)


def test_a_header_names_the_world_whole() -> None:
    header = Header.of(view(CALLS, slots=2, alpha=0.3, budget={"seconds": 4}), CALLS)
    assert header.scenario == {"name": "opencatp", "profile": profile_record(v100()), "outcomes": shipped_outcomes().digest}
    assert header.settings == {
        "alpha": 0.3, "budget": {"seconds": 4}, "cold_starts": False, "concurrent": False, "enforcement": "refuse",
        "gpu_capacity_mb": None, "level": None, "max_steps": 64, "samples": "drawn", "slots": 2, "split": "train",
        "success_score": 0.5, "tasks": "all",
    }  # fmt: skip
    again = header.make().unwrapped
    assert isinstance(again, opencatp_calls.OpenCATPCallsEnv)
    assert (again.profile, again.slots, again.alpha, again.enforcement) == (v100(), 2, 0.3, "refuse")


def test_a_header_without_limits_says_nothing_of_them_and_one_without_an_enforcement_ends_at_a_limit() -> None:
    assert "enforcement" not in Header.of(view(CALLS), CALLS).settings
    header = Header.of(view(CALLS, budget={"seconds": 4}), CALLS)
    old = replace(header, settings={name: value for name, value in header.settings.items() if name != "enforcement"})
    assert old.make().unwrapped.enforcement == "terminate"  # type: ignore[attr-defined]


# -- collections ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=VIEWS)
def collected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collection(request.param, tmp_path_factory.mktemp("run"))


def test_an_honest_collection_verifies(collected: Path) -> None:
    verdict = verify(collected)
    assert verdict.problems == () and verdict.episodes == 12
    exceeded = {json.loads(line)["final"]["exceeded"] for line in collected.read_text().splitlines()[1:]}
    assert exceeded == {None, "price"}


def test_tasks_are_played_in_turn_and_seeds_draw_the_samples(tmp_path: Path) -> None:
    path = collection(PLAN, tmp_path, episodes=26, tasks="nonsequential")
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    numbers = [task.task_id for task in all_tasks() if task.kind == "nonsequential" and task.split == "train"]
    assert [row["number"] for row in rows] == [numbers[i % len(numbers)] for i in range(26)]
    assert [row["seed"] for row in rows] == [5 + i // len(numbers) for i in range(26)]
    drawn = {(row["seed"], row["final"]["draw"], row["final"]["sample"]) for row in rows}
    assert len(drawn) == len({seed for seed, _, _ in drawn}) == len({draw for _, draw, _ in drawn}) >= 2


@pytest.mark.parametrize("share", [0.31, 0.77])
def test_a_collection_that_was_cut_off_continues_with_the_same_bytes(collected: Path, tmp_path: Path, share: float) -> None:
    whole = collected.read_bytes()
    (tmp_path / "trajectories.jsonl").write_bytes(whole[: int(len(whole) * share)])
    assert collection(view_of(collected), tmp_path).read_bytes() == whole


def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    agent = make_agent("random", CALLS)
    files = [collect(view(CALLS), agent, 20, tmp_path / str(jobs), seed=1, engine=Local(jobs)) for jobs in (1, 2)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_folder_of_another_world_is_refused(collected: Path) -> None:
    env_id = view_of(collected)
    with pytest.raises(costgym.ConfigError, match="another scenario or other settings"):
        collection(env_id, collected.parent, alpha=0.7)


# -- forgeries -----------------------------------------------------------------------------------------------------------


def forge(header: str, document: dict[str, Any], folder: Path, fresh: bool) -> tuple[str, ...]:
    """What verification says of a record that was edited; with `fresh`, by one who knows how seals are made."""
    if fresh:
        document["seal"] = seal_of(Trajectory(**{**document, "seal": ""}), json.loads(header)["seal"])
    folder.write_text(f"{header}\n{json.dumps(document)}\n")
    verdict = verify(folder)
    assert verdict.verified == (not verdict.problems)
    return verdict.problems


def test_every_edited_value_of_a_record_is_found_and_named(collected: Path, tmp_path: Path) -> None:
    header, *lines = collected.read_text().splitlines()
    forged, by_field = tmp_path / "forged.jsonl", set[str]()
    generator = np.random.default_rng(2)
    for line in (lines[0], lines[5], lines[11]):
        document = json.loads(line)
        leaves = leaf_paths(document)
        chosen = [*{path[0]: path for path in leaves}.values(), *(("final", name) for name in document["final"])]
        chosen += [leaves[int(i)] for i in generator.integers(len(leaves), size=15)]
        for path in chosen:
            for fresh in (False, True):
                if fresh and path[0] in ("agent", "model", "episode", "seal"):
                    continue  # a name under a fresh seal is no lie that replay could know
                problems = forge(header, tampered(document, path), forged, fresh)
                assert problems and "line 2" in problems[0], (path, fresh)
                by_field.add(path[0])
    assert by_field == set(json.loads(lines[0]))


def test_an_episode_without_its_end_is_no_record(collected: Path, tmp_path: Path) -> None:
    header, *lines = collected.read_text().splitlines()
    for line in lines:
        document = json.loads(line)
        if view_of(collected) == CALLS and document["actions"] == [len(opencatp_calls.CALLS)]:
            document["actions"] = [-1]
            assert "expected a whole number" in forge(header, document, tmp_path / "forged.jsonl", True)[0]
    for name in ("actions", "rewards", "observations"):
        document[name] = document[name][:-1]
    assert forge(header, document, tmp_path / "forged.jsonl", True)


@pytest.mark.parametrize("field", ["env", "digest", "version", "format", "seal"])
def test_an_edited_header_is_found(collected: Path, tmp_path: Path, field: str) -> None:
    header, *rest = collected.read_text().splitlines()
    document = json.loads(header)
    document[field] += "x"
    (tmp_path / "trajectories.jsonl").write_text("\n".join([json.dumps(document), *rest]) + "\n")
    assert "header" in verify(tmp_path).problems[0]


def header_with(collected: Path, tmp_path: Path, **changed: Any) -> tuple[str, ...]:
    """What verification says where the world was edited, and its digest and seal recomputed."""
    lines = collected.read_text().splitlines()
    header = Header(**json.loads(lines[0]))
    scenario = {**header.scenario, **{name: value for name, value in changed.items() if name in header.scenario}}
    settings = {**header.settings, **{name: value for name, value in changed.items() if name not in header.scenario}}
    digest = type(header.world)(scenario).digest
    forged = replace(header, scenario=scenario, digest=digest, settings=settings)
    lines[0] = replace(forged, seal=seal_of(forged)).to_json()
    (tmp_path / "trajectories.jsonl").write_text("\n".join(lines) + "\n")
    return verify(tmp_path).problems


def test_another_world_under_the_same_episodes_is_found(collected: Path, tmp_path: Path) -> None:
    profile = profile_record(v100())
    profile["tools"]["image_denoising"]["cpu_cons_mb"] += 1.0
    problems = header_with(collected, tmp_path, profile=profile)
    assert "line" in problems[0] and "replay says" in problems[0]
    problems = header_with(collected, tmp_path, outcomes="0" * 16)
    assert "the environment cannot be created" in problems[0] and "expected the outcome table 0000" in problems[0]
    assert header_with(collected, tmp_path, alpha=0.51)
    assert "'profile' does not belong there" in header_with_setting(collected, tmp_path, "profile")
    header = json.loads(collected.read_text().splitlines()[0])
    header["scenario"] = {"name": "storm"}
    (tmp_path / "trajectories.jsonl").write_text(json.dumps(header) + "\n")
    assert "header, scenario: " in verify(tmp_path).problems[0]


def header_with_setting(collected: Path, tmp_path: Path, name: str) -> str:
    header = json.loads(collected.read_text().splitlines()[0])
    header["settings"][name] = "v100"
    (tmp_path / "trajectories.jsonl").write_text(json.dumps(header) + "\n")
    return verify(tmp_path).problems[0]


def test_an_outcome_table_elsewhere_is_named_by_data(tmp_path: Path) -> None:
    moved = tmp_path / "moved.npz"
    table = tmp_path / "outcomes.npz"
    table.write_bytes(TABLE.read_bytes())
    path = collection(PLAN, tmp_path / "run", episodes=2, outcomes=str(table))
    shipped_outcomes.cache_clear()
    table.rename(moved)
    assert "no such outcome table" in verify(path).problems[0]
    assert verify(path, str(moved)).verified


def test_what_no_document_holds_is_not_recorded(tmp_path: Path) -> None:
    agent = make_agent("random", PLAN)
    with pytest.raises(costgym.ConfigError, match="custom scores cannot be recorded"):
        collect(view(PLAN, scores=RuleScores()), agent, 1, tmp_path)
    dear = replace(v100(), pricing=replace(v100().pricing, per_run=1.0))
    with pytest.raises(costgym.ConfigError, match="custom pricing"):
        collect(view(PLAN, profile=dear), agent, 1, tmp_path)
    with pytest.raises(costgym.ConfigError, match="expected an environment of costgym, got CartPoleEnv"):
        collect(gym.make("CartPole-v1"), agent, 1, tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- agents --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        pytest.param(env_id, name, marks=pytest.mark.slow if name.startswith("zoo:") else ())
        for env_id in VIEWS
        for name in agent_names(env_id)
    ],
)
def test_every_planner_plays_both_views(env_id: str, name: str) -> None:
    if not find_agent(name, env_id).playable:
        pytest.skip("what it plays with is not installed")
    agent = make_agent(name, env_id)
    results = rollout(view(env_id, split="test"), agent, episodes=6)
    assert (agent.name, agent.env_id) == (name, env_id)
    assert {result.agent for result in results} == {name} and all(result.void is False for result in results)
    assert all(result.regret is not None and result.regret >= -1e-12 for result in results)
    if name == "oracle" and env_id == CALLS:  # which may leave out what is wanted, as the optimum may
        assert [result.regret for result in results] == pytest.approx([max(0.0, -result.quality) for result in results])


@pytest.mark.parametrize("name", ["oracle", "fixed-all", "greedy"])
def test_a_plan_made_by_calls_comes_to_what_it_is_worth(name: str) -> None:
    env, agent = view(CALLS, split="test", concurrent=True), make_agent(name, CALLS)
    world: Any = env.unwrapped
    for task in (0, 16, 202, 226):
        recorded, _ = record(env, agent, task, seed=8)
        plan = agent.proposal.plan  # type: ignore[attr-defined]
        outcome = world.evaluator.evaluate(plan, world.task, world.sample, world.size_level)
        final = recorded.final
        assert (final["score"], final["seconds"]) == (outcome.score, pytest.approx(outcome.seconds, rel=1e-12))
        assert (final["price"], final["quality_of_plan"]) == pytest.approx((outcome.price, outcome.quality), rel=1e-9)


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_plan_made_by_calls_leaves_out_what_cannot_be_paid(concurrent: bool) -> None:
    env = view(CALLS, split="test", concurrent=concurrent, enforcement="refuse", budget={"price": 0.1})
    agent, left_out = make_agent("fixed-all", CALLS), 0
    for task in (0, 16, 202, 226):
        recorded, _ = record(env, agent, task, seed=8)
        assert not recorded.truncated and recorded.final["exceeded"] is None and recorded.final["price"] <= 0.1
        left_out += len(agent.proposal.plan.nodes) > recorded.final["calls"]  # type: ignore[attr-defined]
    assert left_out


def test_a_view_that_is_none_of_opencatp_is_refused() -> None:
    with pytest.raises(costgym.UnknownName, match="agent of costgym/Marketplace-v0"):
        make_agent("few-shot", "costgym/Marketplace-v0")
