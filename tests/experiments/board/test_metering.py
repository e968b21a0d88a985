"""Tokens are counted where the model answers; rows whose tokens nobody but the agent counted are ranked apart."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from costgym.agents.base import TEXT
from costgym.agents.models.base import ASSISTANT, Message, PromptWriter, Reply
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.envs.actions import encode_action
from costgym.experiments.board.epochs.playing import own_code
from costgym.experiments.board.reruns.process_agent import Limits, Meter, ProcessAgent
from costgym.experiments.board.reruns.requests import read_request
from costgym.experiments.board.reruns.sandbox import NONE, why_not
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import add, run
from costgym.experiments.pages.table import print_table
from costgym.experiments.play.episodes import play_many
from costgym.simulators.calls import Prompt, Usage
from costgym.simulators.errors import InfrastructureError
from costgym.simulators.pricing.prompt_cache import USUAL, CacheRules
from tests.helpers.agent_processes import fork_agents
from tests.helpers.epochs import board as arena
from tests.helpers.epochs import entry, epoch, rows

needs_sandbox = pytest.mark.skipif(bool(why_not()), reason=f"no sandbox here: {why_not()}")
NO_USAGE = """
import json

from costgym.agents import make_agent
from costgym.agents.base import TEXT, Agent


class Free(Agent):
    env_id = TEXT

    def __init__(self):
        self.inner = make_agent("dfsdt", TEXT)
        self.handles = self.inner.handles

    def reset(self, seat, observation, info, seed):
        self.inner.reset(seat, observation, info, seed)

    def act(self, observation, info):
        action = json.loads(self.inner.act(observation, info))
        return json.dumps({**action, "usage": {"input_tokens": 0, "output_tokens": 0}})


class Mute(Free):
    handles = ()

    def __init__(self):
        pass

    def reset(self, seat, observation, info, seed):
        pass

    def act(self, observation, info):
        return '{"name": "finish", "arguments": {"answer": "no"}}'
"""


BREAKS = """
from costgym.agents import make_agent
from costgym.agents.base import TEXT, Agent
from costgym.agents.models.base import Message


class Breaks(Agent):
    env_id = TEXT

    def __init__(self):
        self.inner = make_agent("react", TEXT)
        self.handles = self.inner.handles

    def reset(self, seat, observation, info, seed):
        self.inner.reset(seat, observation, info, seed)

    def act(self, observation, info):
        self.handles[0].complete([Message("user", "break")], [])
        return self.inner.act(observation, info)
"""


def reply(read: int, written: int, cached: int = 0, seconds: float | None = None) -> Reply:
    return Reply(Message(ASSISTANT, "text"), Usage(read, written, cached, seconds))


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"properties": schema}
    return schema


def usage_of(action: str) -> tuple[int, int]:
    usage = json.loads(action)["usage"]
    return usage["input_tokens"], usage["output_tokens"]


def test_an_action_pays_at_least_for_the_replies_behind_it_and_what_it_reports_above_counts_later() -> None:
    meter, call = Meter(), '{"name": "tool", "arguments": {}}'
    assert meter.charge(call) == call  # no model of ours answered: the environment counts
    meter.add(reply(100, 10))
    meter.add(reply(150, 20))
    assert usage_of(meter.charge(call)) == (250, 30)
    assert usage_of(meter.charge(call)) == (0, 0)
    meter.add(reply(50, 5))
    more = '{"name": "tool", "arguments": {}, "usage": {"input_tokens": 80, "output_tokens": 2}}'
    assert usage_of(meter.charge(more)) == (80, 5)
    meter.add(reply(40, 5))
    assert usage_of(meter.charge(call)) == (10, 5)  # 30 were paid for before
    exact = '{"name": "tool", "arguments": {}, "usage": {"input_tokens": 7, "output_tokens": 7}}'
    meter.add(reply(7, 7))
    assert meter.charge(exact) == exact


def test_tokens_of_a_text_that_calls_nothing_are_owed_by_the_next_action() -> None:
    meter = Meter()
    meter.add(reply(100, 10))
    assert [meter.charge(text) for text in ("nonsense", "[" * 100_000, "[]", 3)] == ["nonsense", "[" * 100_000, "[]", 3]
    assert json.loads(meter.charge(" finish ")) == {"name": "finish", "usage": Usage(100, 10).document()}


def test_parts_of_a_prompt_are_those_that_the_judge_saw_and_honest_ones_stay_as_they_are() -> None:
    meter, writer, messages = Meter(USUAL), PromptWriter(CacheRules()), [Message("system", "Do."), Message("user", "Why?")]

    def payment_and_charge() -> tuple[str, str]:
        """The action that an honest agent pays a request with, and what the judge makes of that of one that claims a cache."""
        meter.add(reply(100, 10), messages)
        honest = encode_action("tool", usage=Usage(100, 10, prompt=writer.write(messages, ())))
        lying = encode_action("tool", usage=Usage(100, 10, prompt=Prompt(9, (("known", 100),))))
        return honest, str(meter.charge(honest if len(messages) == 2 else lying))

    honest, charged = payment_and_charge()
    assert charged == honest
    messages.append(Message("user", "Again."))
    honest, charged = payment_and_charge()
    assert json.loads(charged) == json.loads(honest)
    meter.add(reply(100, 10), messages)
    meter.add(reply(100, 10), messages)
    assert "prompt" not in json.loads(meter.charge(encode_action("tool")))["usage"]  # two requests: billed as new


def test_rows_whose_tokens_only_the_agent_counted_are_ranked_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "code"
    code.mkdir()
    monkeypatch.chdir(code)
    (code / "free.py").write_text(NO_USAGE)
    terms = {"budgets": "price=30", "episodes": 4}
    agents = ["react", "dfsdt", "free.py:Free", "free.py:Mute"]
    board = run(make_run_config("quick", agents=agents, **terms), tmp_path / "board").folder  # type: ignore[arg-type]
    rows = {row["agent"]: row for row in json.loads((board / "leaderboard.json").read_text())["rows"]}
    assert [rows[name].get("metered") for name in agents] == [None, None, False, False]
    assert rows["free.py:Free"]["average_tokens"] < rows["dfsdt"]["average_tokens"] / 3
    packed = pack(board, tmp_path / "packed", "A", "a@example.org", agents[1:])
    # handed in, not even our own agent's tokens are counted by anybody but the one who handed it in
    added = {row["agent"]: row for row in add(board, packed)}
    assert {row["metered"] for row in added.values()} == {False}
    ranked = [row["agent"] for row in json.loads((board / "leaderboard.json").read_text())["rows"]]
    # one's own agents are ranked beside react, those that were handed in behind, whatever they come to
    assert set(ranked[:4]) == set(agents) and ranked[0] in ("dfsdt", "free.py:Free")
    page = (board / "index.html").read_text()
    assert ">u1<" in page and "Unmetered (u1, u2, …)" in page and "unmetered" in page
    console = Console(file=io.StringIO(), width=100)
    print_table(json.loads((board / "leaderboard.json").read_text()), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    start = next(number for number, line in enumerate(lines) if "unmetered" in line)
    assert "free.py:Free" in "".join(lines[:start])
    assert lines[start + 1].split()[0] == "1" and "react" in "".join(lines[start - 2 : start])
    assert verify(board).verified


@needs_sandbox
def test_in_an_epoch_the_model_answers_on_the_judges_side_and_counts_whatever_is_reported(tmp_path: Path) -> None:
    for name in ("Free", "Mute"):
        entry(tmp_path / "entries", name, [f"own.py:{name}"], NO_USAGE)
    spring = epoch(tmp_path / "spring", tracks=("text",), references=["dfsdt"], tasks=1)
    document = arena([tmp_path / "entries"], spring, tmp_path / "out")
    [reference] = [row for row in document["rows"] if "submission" not in row]
    ranked = rows(document)
    assert ranked["Free"]["average_tokens"] == reference["average_tokens"]
    assert [row.get("metered") for row in (reference, ranked["Free"], ranked["Mute"])] == [None, None, False]


def test_cached_tokens_and_seconds_are_those_of_the_judges_replies_whatever_an_action_says() -> None:
    meter = Meter()
    saves = '{"name": "tool", "usage": {"input_tokens": 100, "output_tokens": 9, "cached_tokens": 100, "seconds": 0}}'
    assert json.loads(meter.charge(saves))["usage"] == Usage(100, 9).document()  # no reply of ours, so no cache of ours
    meter = Meter()
    meter.add(reply(60, 4, 30, 1.5))
    meter.add(reply(40, 5, 10, 2.0))
    assert json.loads(meter.charge(saves))["usage"] == Usage(100, 9, 40, 3.5).document()
    meter.add(reply(7, 7, 7))
    assert json.loads(meter.charge(saves))["usage"] == Usage(100, 9, 7).document()  # of this reply nobody measured the time
    meter = Meter()
    meter.add(Reply(Message(ASSISTANT, "text"), Usage(100, 9, 20, None, 70, 8)))
    assert json.loads(meter.charge(saves))["usage"] == Usage(100, 9, 20, None, 70, 8).document()


def broken_server(monkeypatch: pytest.MonkeyPatch, down: Callable[[int, str], bool]) -> list[int]:
    """The judge's model, with a server that is down for some requests, by their number and text; returns those asked."""
    complete, requests = SimulatedToolPlanner.complete, list[int]()

    def answer(self: Any, messages: Any, *arguments: Any) -> Any:
        requests.append(1)
        if down(len(requests), messages[-1].content):
            raise InfrastructureError("model server http://127.0.0.1:1/v1: HTTP 500: broken")
        return complete(self, messages, *arguments)

    monkeypatch.setattr(SimulatedToolPlanner, "complete", answer)
    return requests


@pytest.mark.parametrize(("outages", "crashed"), [(1, 0), (0, 3)])
def test_an_episode_that_the_judges_own_model_broke_is_played_later_as_long_as_episodes_may_be_put_back(
    outages: int, crashed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_agents(monkeypatch)
    (tmp_path / "own.py").write_text(BREAKS.replace('self.handles[0].complete([Message("user", "break")], [])', "pass"))
    run_of = make_run_config("quick", agents=["react"], budgets="price=30", episodes=4)
    [track] = run_of.tracks
    config = run_of.model_copy(update={"tracks": (track.model_copy(update={"agents": ("own.py:Breaks",)}),)})
    # three tries of one episode, each with the judge's own request, which fails too
    requests = broken_server(monkeypatch, lambda number, text: 5 <= number <= 10)
    outputs = list(own_code(config, next(config.rows()), tmp_path, NONE, Limits(outages=outages)))
    assert len(requests) >= 10 and sorted(output.result.episode for output in outputs) == [0, 1, 2, 3]
    assert [output.result.void for output in outputs] == [False] * 4
    assert sum("more of its episodes than may be put back" in output.result.crash for output in outputs) == crashed


def test_a_request_that_breaks_a_server_which_answers_others_is_its_agents_failure_at_the_first_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_agents(monkeypatch)
    (tmp_path / "own.py").write_text(BREAKS)
    requests = broken_server(monkeypatch, lambda number, text: text == "break")
    [track] = make_run_config("quick", agents=["react"], budgets="price=30").tracks
    with ProcessAgent("own.py:Breaks", TEXT, tmp_path) as agent:
        agent.name = "own.py:Breaks"
        env = track.make_env(TEXT, track.conditions[0])
        results = [result for result, _ in play_many(env, agent, TEXT, range(2), 0, crashes="count")]
    assert len(requests) == 4  # one request an episode, and one of the judge's own
    assert [(result.void, result.strict, result.replies.get("retried")) for result in results] == [(False, False, None)] * 2
    assert {result.crash for result in results} == {
        "its request broke a model that answers others (model server: HTTP 500: broken)"
    }


@pytest.mark.parametrize(
    ("messages", "functions", "words"),
    [
        ([], [], "1 to 2,000 messages"),
        ([("root", "x")], [], "one of the roles system, user, assistant, tool"),
        ([("user", "x" * 2_000_001)], [], "at most 2,000,000 characters"),
        ([("user", None)], [], "a text and a list of calls"),
        ([("user", "x")], [("f" * 201, {})], "a name of at most 200 characters"),
        ([("user", "x")], [("f", [])], "a schema of its parameters"),
        ([("user", "x")], [("f", nested(25))], "at most 24 levels"),
        ([("user", "x")], [("f", {})] * 2_001, "at most 2,000 functions"),
    ],
)
def test_a_request_beyond_its_bounds_reaches_no_model(messages: Any, functions: Any, words: str) -> None:
    texts = [{"role": role, "content": text, "calls": [], "name": "", "call_id": ""} for role, text in messages]
    offered = [{"name": name, "description": "", "parameters": schema} for name, schema in functions]
    with pytest.raises(ValueError, match=words):
        read_request([texts, offered, "act"])
