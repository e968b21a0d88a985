"""Export trajectories as chat messages for supervised fine-tuning and preference optimisation.

Rows have the conversational format with tools that TRL's trainers accept: `messages` (SFT), or `prompt`, `chosen` and
`rejected` (DPO), and `tools` with the functions' documentation. An episode is written as its sequence of actions; for a tree
search, in the order in which its branches were visited.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from costgym.agents.base import TEXT, view_of
from costgym.agents.models.base import ASSISTANT, FINISH, SYSTEM, TOOL, USER, Function
from costgym.agents.prompts import INSTRUCTIONS
from costgym.envs.actions import Action, read_action
from costgym.experiments.play.export.tables import save_dataset
from costgym.experiments.play.trajectories.format import Header, parse_header, parse_trajectory
from costgym.experiments.play.trajectories.replay import ReplayedEpisode, Step, readable, replay_at, replayed, trajectory_files
from costgym.simulators.errors import ConfigError, DataError, check_known, require
from costgym.simulators.files import write_lines

KINDS, ONLY, PAIRS = ("sft", "dpo"), ("passed", "all"), ("seed", "task")
WAIT = Function(
    "wait",
    "Let time pass.",
    {"type": "object", "properties": {"seconds": {"type": "number", "description": "how long"}}, "required": []},
)

Message = dict[str, Any]


def to_messages(
    path: str | Path,
    out: str | Path,
    kind: str = "sft",
    only: str = "passed",
    pairs: str = "seed",
    data: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Export trajectories as chat messages.

    Args:
        out: a `.jsonl` file, or otherwise the folder of a Hugging Face dataset, whose features preserve free-form arguments.
        kind: "sft" for one row per episode; "dpo" for one row per task and seed that was both passed and failed in any of the
            files, where the cheapest pass is chosen and the most expensive failure rejected.
        pairs: episodes that make a pair for DPO: "seed", of one task and seed, so that several agents (or one that samples)
            met the same luck; or "task", of one task under any seeds, which one agent's runs under several seeds have.
        only: episodes for SFT: "passed" (within the budget, by the file's grading) or "all".

    Raises:
        UnknownName: `kind`, `only` or `pairs` is unknown.
        DataError: the trajectories cannot be read or do not replay.
    """
    check_known("kind of messages", kind, KINDS)
    check_known("choice of episodes", only, ONLY)
    check_known("pairs of episodes", pairs, PAIRS)
    target = Path(out)
    arguments: dict[str, Any] = {"path": str(path), "kind": kind, "only": only, "pairs": pairs, "data": data}
    if next(_rows(**arguments), None) is None:
        under = " under one seed (--pairs task takes any seeds)" if pairs == "seed" else ""
        wanted = f"a task that was both passed and failed{under}" if kind == "dpo" else "an episode that passed"
        raise ConfigError("--format", f"{path} does not hold {wanted}")
    if target.suffix == ".jsonl":
        return write_lines(target, _rows(**arguments), progress)
    datasets = require("datasets", "data")

    def load(cache: Path) -> Any:
        table = datasets.Dataset.from_generator(_rows, gen_kwargs=arguments, features=features(kind), cache_dir=str(cache))
        table.info.description = f"{kind} messages of costgym episodes"
        return table

    return save_dataset(load, target)


def features(kind: str) -> Any:
    """Return the features of the rows, for `datasets.load_dataset("json", data_files=..., features=...)`."""
    datasets = require("datasets", "data")
    free = datasets.List(datasets.Json())
    columns = {"messages": free} if kind == "sft" else {"prompt": free, "chosen": free, "rejected": free}
    value = datasets.Value
    who = {"task": value("string"), "seed": value("int64"), "agent": value("string")}
    how = {"passed": value("bool"), "price": value("float64")} if kind == "sft" else {}
    return datasets.Features({**columns, "tools": free, **who, **how})


def _rows(path: str, kind: str, only: str, pairs: str, data: str | None) -> Iterator[dict[str, Any]]:
    return _sft(path, only, data) if kind == "sft" else _dpo(path, pairs, data)


def _sft(path: str, only: str, data: str | None) -> Iterator[dict[str, Any]]:
    for played in replayed(path, data):
        need_text(played.header.env, "messages")
        if played.passed or only == "all":
            recorded = played.recorded
            prompt, answers, tools = conversation(played)
            yield {
                "messages": [*prompt, *answers],
                "tools": tools,
                "task": recorded.task,
                "seed": recorded.seed,
                "agent": recorded.agent,
                "passed": played.passed,
                "price": recorded.final["price"],
            }


def _dpo(path: str, pairs: str, data: str | None) -> Iterator[dict[str, Any]]:
    best: dict[tuple[str, int, int], list[tuple[float, int, int] | None]] = {}
    files = trajectory_files(path)
    headers = []
    for index, file in enumerate(files):
        header: Header | None = None
        for offset, line in _lines_at(file):
            if header is None:
                header = parse_header(line, file)
                headers.append(header)
                need_text(header.env, "messages")
                continue
            recorded = parse_trajectory(line, file, 0)
            grade = recorded.final["judged" if header.settings["grading"] == "judge" else "strict"]
            passed = grade and recorded.final["exceeded"] is None
            world = json.dumps([header.digest, *(header.settings.get(name) for name in ("level", "max_observation"))])
            pair = best.setdefault((world, recorded.number, recorded.seed if pairs == "seed" else 0), [None, None])
            price = recorded.final["price"]
            episode = pair[0 if passed else 1]
            if episode is None or (price < episode[0] if passed else price > episode[0]):
                pair[0 if passed else 1] = (price, index, offset)
    envs = [header.make(data) for header in headers]
    for chosen, rejected in best.values():
        if chosen is None or rejected is None:
            continue
        sides: list[tuple[ReplayedEpisode, list[Message], list[Message], list[dict[str, Any]]]] = []
        for _, index, offset in (chosen, rejected):
            played = replay_at(files[index], offset, headers[index], envs[index])
            if played.passed != (len(sides) == 0):
                raise DataError(files[index], "a grade differs from the replay's; run `costgym verify`", played.recorded.task)
            sides.append((played, *conversation(played)))
        (winner, prompt, good, tools), (loser, _, bad, more) = sides
        yield {
            "prompt": prompt,
            "chosen": good,
            "rejected": bad,
            "tools": tools if len(tools) >= len(more) else more,
            "task": winner.recorded.task,
            "seed": winner.recorded.seed,
            "agent": f"{winner.recorded.agent} over {loser.recorded.agent}",
        }


def need_text(env_id: str, format: str) -> None:
    """Raise ConfigError unless the environment is the text view."""
    if view_of(env_id) != TEXT:
        instead = "minari, parquet and hf take any; or collect with an agent of that view, such as react"
        raise ConfigError("--format", f"{format} needs episodes of {TEXT}, these are of {env_id}; {instead}")


def _lines_at(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their byte offsets."""
    offset = 0
    with path.open("rb") as store:
        for line in store:
            if line.endswith(b"\n"):
                yield offset, line[:-1].decode("utf-8")
            offset += len(line)


def conversation(played: ReplayedEpisode) -> tuple[list[Message], list[Message], list[dict[str, Any]]]:
    """Convert an episode to messages: the prompt (system and user), the messages after it, and the tools' documentation."""
    env: Any = played.env.unwrapped
    prompt = [{"role": SYSTEM, "content": INSTRUCTIONS}, {"role": USER, "content": readable(env.query)}]
    answers: list[Message] = []
    waited = False
    for step in played.steps[1:]:
        action = read_action(step.action)
        waited |= action.kind == "wait"
        answers += _turn(action, step, len(answers))
    tools = [Function.of(tool).document() for tool in env.candidates]
    return prompt, answers, [*tools, FINISH.document(), *([WAIT.document()] if waited else [])]


def _turn(action: Action, step: Step, count: int) -> list[Message]:
    """Convert an action and its results to messages. A `think` action gives none, because its text is not recorded."""
    if action.kind == "think":
        return []
    observation = readable(step.observation)
    if action.kind == "finish":
        arguments: dict[str, Any] = {"give_up": True} if action.gave_up else {}
        return [_asks([("finish", {"answer": readable(action.answer), **arguments})], count)]
    if action.kind == "wait":
        return [_asks([("wait", {"seconds": action.seconds})], count), _result("wait", observation, count, 0)]
    if any(not call.name for call in action.calls):
        return [{"role": ASSISTANT, "content": readable(step.action)}, {"role": USER, "content": observation}]
    calls = _asks([(readable(call.name), _readable(dict(call.arguments))) for call in action.calls], count)
    texts = [readable(result["text"]) for result in step.info["results"]]
    texts += [""] * (len(action.calls) - len(texts))  # the episode ended before these calls
    results = [_result(readable(action.calls[index].name), text, count, index) for index, text in enumerate(texts)]
    news = readable("; ".join(step.info["news"]))
    return [calls, *results, *([{"role": USER, "content": news}] if news else [])]


def _asks(calls: list[tuple[str, dict[str, Any]]], count: int) -> Message:
    return {
        "role": ASSISTANT,
        "content": "",
        "tool_calls": [
            {"type": "function", "id": f"call_{count}_{index}", "function": {"name": name, "arguments": arguments}}
            for index, (name, arguments) in enumerate(calls)
        ],
    }


def _result(name: str, content: str, count: int, index: int) -> Message:
    return {"role": TOOL, "name": name, "tool_call_id": f"call_{count}_{index}", "content": content}


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {readable(str(name)): _readable(part) for name, part in value.items()}
    return [_readable(part) for part in value] if isinstance(value, list) else value
