"""Thinking that takes as long as it took: recorded once, replayed exactly."""

import json
from pathlib import Path

import pytest

from costgym.agents.models.base import USER, Message
from costgym.agents.models.cached import Cached, Measured
from costgym.agents.models.named import make_real_model, priced_for, read_model_name
from costgym.agents.models.openai import KEY_VARIABLE
from costgym.envs.actions import encode_action, read_action
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.simulators.calls import Usage
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import parse_scenario
from tests.helpers.model_server import Server, wire_reply
from tests.helpers.playing import SMALL
from tests.helpers.scripted import Scripted

NAME = "openai:tiny,thinking=measured"


def document(**more):
    return {"name": "small", **SMALL, "tokens": {"input": 100.0, "output": 400.0}, **more}


def test_seconds_travel_with_an_action_and_only_where_they_are():
    timed, plain = Usage(10, 2, 0, 1.25), Usage(10, 2)
    assert read_action(encode_action("think", usage=timed)).usage == timed
    assert json.loads(encode_action("think", usage=plain))["usage"] == {
        "input_tokens": 10,
        "output_tokens": 2,
        "cached_tokens": 0,
    }


@pytest.mark.parametrize("seconds", [-1, 1e9, "2", None, True, [1]])
def test_invalid_seconds_are_ignored(seconds):
    text = json.dumps({"name": "think", "usage": {"input_tokens": 10, "seconds": seconds}})
    assert read_action(text).usage == Usage(10, 0)


@pytest.mark.parametrize("thinking, took", [("measured", 7.5), ("tokens", 0.5 + 60 / 60), (None, 0.5 + 60 / 60)])
def test_a_world_takes_the_seconds_where_its_thinking_is_measured(thinking, took):
    world = parse_scenario(document() if thinking is None else document(thinking=thinking)).build()
    episode = world.episode(0)
    episode.think(Usage(100, 60, 0, 7.5))
    assert episode.now_s == took and episode.fork().now_s == took
    before = episode.now_s
    episode.think(Usage(100, 60))  # nobody measured: its tokens tell
    assert episode.now_s - before == 1.5


def test_scenarios_without_the_setting_keep_their_digest():
    assert "thinking" not in parse_scenario(document()).model_dump_json()


def test_a_measured_model_says_how_long_it_took(tmp_path: Path):
    model = Cached(Measured(Scripted(["one"])), tmp_path / "replies.sqlite")
    model.reset(0)
    first = model.complete([Message(USER, "q")], ()).usage
    assert first.seconds is not None and 0 <= first.seconds < 5
    again = Cached(Measured(Scripted(["never asked"])), tmp_path / "replies.sqlite")
    again.reset(0)
    assert again.complete([Message(USER, "q")], ()).usage == first  # to the last digit


def test_the_setting_is_part_of_a_models_name(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    name = read_model_name(NAME)
    assert name is not None and isinstance(make_real_model(name), Measured)
    scenario = parse_scenario(document())
    assert priced_for(scenario, NAME).thinking == "measured" and priced_for(scenario, "openai:tiny").thinking is None
    with pytest.raises(ConfigError, match="tokens or measured"):
        read_model_name("openai:tiny,thinking=slowly")


def test_a_board_is_verified_from_its_recording_alone(monkeypatch, tmp_path: Path):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    server = Server()
    try:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        lines = [("look", ("no_such_tool", {})), ("", ("finish", {"answer": "?"}))] * 2
        server.answers = [wire_reply(text, call, prompt=100, completion=6000) for text, call in lines]
        config = make_run_config(
            scenario=parse_scenario(document()), agents=["react"], budgets="price=20", episodes=2, model=NAME
        )
        row = run(config, tmp_path / "run").document["rows"][0]
    finally:
        server.close()
    recorded = [path.read_text() for path in (tmp_path / "run" / "trajectories").rglob("*.jsonl")]
    assert sum(text.count('\\"seconds\\": ') for text in recorded) == 4  # one for each request
    assert row["average_seconds"] < 50  # 6,000 tokens alone would take 100 s
    assert verify(tmp_path / "run").verified
