"""Live episodes: a finished plan is executed by a back-end, and its score and what it took are measured."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import costgym
from costgym.envs.base import base_env
from costgym.envs.tpl import ACTION_TOKENS, encode
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.plan import Plan
from tests.helpers.opencatp_scores import RuleScores
from tests.helpers.published_models import small_published

SEQUENTIAL = ["image_denoising", ["input_of_query"], "image_captioning", ["image_denoising"]]
BRANCHES = [
    "image_denoising", ["input_of_query"], "image_super_resolution", ["image_denoising"],
    "object_detection", ["image_denoising"], "machine_translation", ["object_detection"],
]  # fmt: skip
"""A restored image on one branch, and the names of its objects in German on the other."""


def played(view: str, items: list[Any], task: int, sample: int, **settings: Any) -> dict[str, Any]:
    env = costgym.make(f"costgym/{view}-v0", tasks="all", disable_env_checker=True, **settings)
    _, info = env.reset(seed=0, options={"task": task, "sample": sample, "level": 1})
    if view == "OpenCATPChat":
        info = env.step(json.dumps(items))[4]
    else:
        for token in encode(Plan.from_list(items)):
            if token in ACTION_TOKENS:
                info = env.step(ACTION_TOKENS.index(token))[4]
    return info


@pytest.mark.parametrize("view", ["OpenCATP", "OpenCATPChat"])
def test_the_tiny_back_end_scores_what_the_table_says(view: str) -> None:
    for items, task, sample in ((SEQUENTIAL, 24, 3), (BRANCHES, 225, 70)):
        looked_up, live = (played(view, items, task, sample, **more) for more in ({}, {"backend": "tiny"}))
        # sums of floats may differ in the last bit on another machine, and a score by one step of the table's rounding
        assert live["score"] == pytest.approx(looked_up["score"], abs=1e-4) and looked_up["score"] > 0
        for name in ("price", "execution_time_s", "plan_valid"):
            assert live[name] == looked_up[name]
        assert live["quality_of_plan"] == pytest.approx(looked_up["quality_of_plan"], abs=1e-4)
        assert 0 < live["measured_seconds"] <= live["measured_seconds_one_by_one"] < 10
        assert "measured_seconds" not in looked_up


@pytest.mark.slow
def test_published_models_are_executed_with_their_doubled_images(tmp_path: Path) -> None:
    backend = small_published(tmp_path)
    for view in ("OpenCATP", "OpenCATPChat"):
        env = costgym.make(f"costgym/{view}-v0", tasks="all", backend=backend, disable_env_checker=True)
        assert base_env(env)._live.backend is backend
        info = played(view, BRANCHES, 225, 70, backend=backend)
        assert info["plan_valid"] and -1 <= info["score"] <= 1
        assert info["measured_seconds"] > 0 and info["measured_memory_mb"] >= 0
    env.reset(seed=0, options={"task": 225, "sample": 70})
    env.step(json.dumps(BRANCHES))
    outcome = base_env(env).live_outcome
    assert outcome is not None and list(outcome.runs) == BRANCHES[::2]
    assert outcome.runs["image_super_resolution"].output.shape == (120, 120, 3)
    assert outcome.seconds_one_by_one == pytest.approx(sum(run.seconds for run in outcome.runs.values()))


def test_calls_are_executed_at_the_end() -> None:
    env = costgym.make("costgym/OpenCATPCalls-v0", backend="tiny", disable_env_checker=True)
    world = base_env(env)
    env.reset(seed=0, options={"task": 16, "sample": 0})
    reader = next(number for number in range(world.finish_action) if world.action_text(number).startswith("object_detection"))
    env.step(reader)
    info = env.step(world.finish_action)[4]
    assert info["measured_seconds"] > 0
    plan = world.plan()
    assert plan is not None
    assert info["score"] == pytest.approx(world.evaluator.score(plan, world.task, 0), abs=0.01)


def test_an_invalid_plan_executes_nothing() -> None:
    info = played("OpenCATPChat", ["machine_translation", ["input_of_query"]], 24, 0, backend="tiny")
    assert not info["plan_valid"] and info["measured_seconds"] == 0.0


def test_a_live_episode_is_not_recorded_and_its_world_is_copied() -> None:
    env = costgym.make("costgym/OpenCATP-v0", backend="tiny", disable_env_checker=True)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="cannot be recorded"):
        base_env(env).world_document()
    twin = pickle.loads(pickle.dumps(base_env(env)))
    assert twin.task == base_env(env).task


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"backend": "large"}, UnknownName, "unknown back-end"),
        ({"backend": "tiny", "weights": "nowhere"}, DataError, "expected a folder of weights"),
        ({"backend": "tiny", "download": True}, ConfigError, "ships with its weights"),
        ({"backend": "tiny", "scores": RuleScores()}, ConfigError, "which scenes"),
    ],
)
def test_back_ends_that_cannot_be_are_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        costgym.make("costgym/OpenCATP-v0", disable_env_checker=True, **settings)
