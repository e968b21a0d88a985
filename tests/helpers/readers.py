"""Everything that reads a file of somebody else's, each with a genuine file of its kind, for edits of it."""

import datetime
import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from costgym.agents.btp.experience import Experience
from costgym.agents.catp.settings import CatpConfig
from costgym.agents.checkpoints import newest, read_state, read_tensors
from costgym.agents.models.base import ASSISTANT, USER, Message, Reply
from costgym.agents.models.cached import Cached
from costgym.agents.models.prices import DEFAULT_TABLE, load_prices
from costgym.agents.models.prices.imports import import_prices
from costgym.agents.settings import read_config
from costgym.agents.zoo import cards
from costgym.experiments.board.board import Leaderboard
from costgym.experiments.board.store.runs import read_run
from costgym.experiments.fit.forge.sources import documents
from costgym.experiments.pages.episode_report import report_recorded
from costgym.experiments.play.call_logs.log import read_log
from costgym.experiments.play.call_logs.model_calls import read_model_calls
from costgym.experiments.play.trajectories.verify import verify_file
from costgym.experiments.serve.proxy.call_log import read_runs, reliability
from costgym.experiments.train.run import read_curve
from costgym.simulators.calls import Usage
from costgym.simulators.errors import CostGymError
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.marketplace.loaders.toolbench import load_toolbench
from costgym.simulators.opencatp.pools import load_pool
from costgym.simulators.opencatp.profile import load_profile, save_profile, v100
from costgym.simulators.opencatp.scoring.table import TABLE, OutcomeTable
from costgym.simulators.scenario import load_scenario, parse_scenario
from tests.conformance.test_public_cases import CASES as PUBLIC
from tests.experiments.play.call_logs.test_dialects import CASES, UNTIMED
from tests.experiments.play.call_logs.test_model_calls import CLAUDE_CODE, LANGFUSE, OPENINFERENCE, OTEL
from tests.helpers.specifications import CLINIC
from tests.helpers.toolbench_folders import query, write

QUERIES = "bench/solvable_queries/test_instruction/G1_tool.json"
INSERTED = (b"[" * 5000, b"9" * 5000, b"\xff\xfe", b"\0", b"{", b'"', b"\n")
OTHERS = (b"", b"null", b"[]", b"{}", b"[" * 100_000, b"1:" * 5000 + b"1", b"\x89PNG", b"PK\x03\x04", b"\x1f\x8b")
Reader = tuple[Path, Callable[[], object]]
ODD = (
    None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "\0", "9" * 400, [], {}, [[]], {"": None},
    "1:1:1.5", "../../x",
)  # fmt: skip


class _Once:
    name = "once"

    def reset(self, seed: int) -> None:
        pass

    def complete(self, messages: Any, functions: Any, purpose: str = "act") -> Reply:
        return Reply(Message(ASSISTANT, "yes"), Usage(1, 1))


def readers(folder: Path, board: Path) -> dict[str, Reader]:
    """A file of every kind in a folder, and what reads it; `board` is that of a run that has ended."""
    zoo = Path(cards.__file__).parent
    copied = shutil.copytree(board, folder / "run")
    catp = shutil.copytree(zoo / "catp", folder / "catp")
    trajectories = next(iter(sorted((copied / "trajectories").rglob("*.jsonl"))))
    single = Path(shutil.copy(trajectories, folder / "one.jsonl"))
    save_profile(v100(), folder / "profile.json")
    plan = {
        "task_id": 0,
        "sample_id": 0,
        "plan": ["image_classification", ["Input of Query"]],
        "score": 0.5,
        "score_kind": "vit_score",
    }
    by_tool = {key: [1.0] for key in ("tool_exec_time_ms", "tool_cpu_inst_mb", "tool_gpu_inst_mb")}
    write(folder / "pool.json", {"plans": [{**plan, **by_tool}]})
    write(folder / "experience.jsonl", json.dumps({"query": "q", "uses": {"a": [1, 0]}, "test": False}) + "\n")
    litellm = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "mode": "chat"}
    write(folder / "litellm.json", {"a": litellm, "b": litellm})
    listed = {"id": "a/b", "pricing": {"prompt": "0.000001", "completion": "0.000002", "request": "0"}}
    write(folder / "openrouter.json", {"data": [listed]})
    world = load_scenario("marketplace").model_dump(mode="json")
    write(folder / "worlds" / "w.jsonl", json.dumps(world) + "\n")
    write(
        folder / "worlds" / "index.json",
        {"format": "costgym.worlds/1", "most_candidates": 9, "blocks": [{"file": "w.jsonl", "offsets": [0]}]},
    )
    log = [
        {"run": "a", "format": "costgym.calls/1", "scenario": "x", "faults": 1.0, "budget": {"price": 2}, "task": "t"},
        {"run": "a", "tool": "t", "status": "ok", "price": 1.0, "imposed": "ok"},
        {"run": "a", "success": True},
        {"run": "a", "end": "done"},
    ]
    write(folder / "calls.jsonl", "".join(f"{json.dumps(line)}\n" for line in log))
    write(folder / QUERIES, [query()])
    for name in ("specification.json", "specification.yaml"):
        write(folder / name, CLINIC)  # JSON is YAML too
    (folder / "specification.json.gz").write_bytes(gzip.compress(json.dumps(CLINIC).encode()))
    shutil.make_archive(str(folder / "archive"), "zip", folder / "bench")
    scenario = Path(shutil.copy(Path(cards.__file__).parents[2] / "simulators/presets/marketplace.yaml", folder / "world.yaml"))
    shutil.copy(TABLE, folder / "outcomes.npz")
    shutil.copy(DEFAULT_TABLE, folder / "prices.yaml")
    cache = folder / "replies.sqlite"
    messages = [Message(USER, "?")]
    Cached(_Once(), cache).complete(messages, ())
    checkpoint = newest(catp)

    def read_source(name: str) -> Callable[[], object]:
        return lambda: [document.read() for document in documents(str(folder / name), folder / "cache")]

    return {
        "run.json": (copied / "run.json", lambda: Leaderboard.load(copied).results),
        "leaderboard.json": (copied / "leaderboard.json", lambda: (Leaderboard.load(copied), read_run(copied))),
        "episodes.jsonl": (
            copied / "episodes.jsonl",
            lambda: (Leaderboard.load(copied).results, list(read_run(copied).results())),
        ),
        "trajectories": (single, lambda: verify_file(single)),
        "show": (single, lambda: report_recorded(single).text),
        "scenario": (scenario, lambda: load_scenario(str(scenario))),
        "profile": (folder / "profile.json", lambda: load_profile(folder / "profile.json")),
        "pool": (folder / "pool.json", lambda: load_pool(folder / "pool.json")),
        "experience": (folder / "experience.jsonl", lambda: Experience.load(folder / "experience.jsonl")),
        "prices": (folder / "prices.yaml", lambda: load_prices(folder / "prices.yaml")),
        "imported prices": (
            folder / "litellm.json",
            lambda: import_prices(folder / "litellm.json", datetime.date(2026, 1, 1)),
        ),
        "OpenRouter's prices": (
            folder / "openrouter.json",
            lambda: import_prices(folder / "openrouter.json", datetime.date(2026, 1, 1)),
        ),
        "index of worlds": (folder / "worlds/index.json", lambda: _first_world(folder / "worlds")),
        "world": (folder / "worlds/w.jsonl", lambda: _first_world(folder / "worlds")),
        "proxy's log": (folder / "calls.jsonl", lambda: reliability(read_runs([folder / "calls.jsonl"]))),
        "toolbench": (
            folder / QUERIES,
            lambda: load_toolbench(folder / "bench"),
        ),
        "specification": (folder / "specification.json", read_source("specification.json")),
        "specification in YAML": (folder / "specification.yaml", read_source("specification.yaml")),
        "packed specification": (folder / "specification.json.gz", read_source("specification.json.gz")),
        "archive": (folder / "archive.zip", read_source("archive.zip")),
        "outcomes": (folder / "outcomes.npz", lambda: OutcomeTable.load(folder / "outcomes.npz")),
        "config": (catp / "config.json", lambda: read_config(catp, CatpConfig)),
        "curve": (catp / "curve.jsonl", lambda: read_curve(catp)),
        "state": (checkpoint / "state.json", lambda: read_state(checkpoint)),
        "weights": (checkpoint / "policy.safetensors", lambda: read_tensors(checkpoint / "policy.safetensors")),
        "cache": (cache, lambda: Cached(_Once(), cache).complete(messages, ())),
    }


def logs(folder: Path) -> dict[str, Reader]:
    """A log of every program that is read, in a folder, and what reads it."""
    public = {case["name"]: case["input"] for case in PUBLIC if case["kind"] == "log"}
    documents: dict[str, Any] = {**CASES, **UNTIMED, **public, "model calls": [OTEL, OPENINFERENCE, CLAUDE_CODE, LANGFUSE]}
    for number, document in enumerate(documents.values()):
        write(folder / f"{number}.json", document)
        write(folder / f"{number}.jsonl", "".join(f"{json.dumps(line)}\n" for line in _lines(document)))
    record = {"tool": "find", "started": 5, "latency_s": 0.4, "status": "ok", "price": 0.002, "episode": "a"}
    write(folder / "own.jsonl", "".join(f"{json.dumps(record)}\n" for _ in range(3)))
    write(folder / "own.csv", "\n".join([",".join(record), *[",".join(map(str, record.values()))] * 3]))
    return {path.name: (path, partial(_read_log, path)) for path in sorted(folder.iterdir())}


def _lines(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]


def _read_log(path: Path) -> None:
    """Read a log of tools and one of models, which few logs are both; raises an error where it is neither."""
    with suppress(CostGymError):
        read_model_calls(path)
        with suppress(CostGymError):
            read_log(path)
        return
    read_log(path)


def _first_world(folder: Path) -> object:
    return WorldFolder(folder, lambda document, _: parse_scenario(document, folder))[0]


def edited(content: bytes, chance: random.Random) -> bytes:
    """A file with one thing wrong: a value, a key, a part too deep, a cut, a byte, or another file altogether."""
    kind = chance.randrange(10)
    if kind < 6 and (changed := _edited_value(content, chance)) is not None:
        return changed
    at = chance.randrange(len(content) + 1)
    match chance.randrange(5):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
        case 2:
            return content[:at] + chance.choice(INSERTED) + content[at:]
        case 3:
            return chance.choice(OTHERS)
        case _:
            return content + content[: at // 2]


def _edited_value(content: bytes, chance: random.Random) -> bytes | None:
    """JSON, or a line of it, with another value or key at one place; None where it is none."""
    try:
        lines = content.decode().splitlines()
        at = chance.randrange(len(lines)) if len(lines) > 1 and not content.startswith((b"{\n", b"[\n")) else None
        document = json.loads(content if at is None else lines[at])
    except ValueError:
        return None
    paths = list(_places(document))
    if not paths:
        return None
    holder, key = chance.choice(paths)
    odd = chance.choice(ODD)
    match chance.randrange(4):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder["odd \u202e key"] = odd
        case 2:
            deep: Any = odd
            for _ in range(chance.choice([3, 98, 400])):
                deep = [deep]
            holder[key] = deep
        case _:
            holder[key] = odd
    text = json.dumps(document)
    return text.encode() if at is None else "\n".join([*lines[:at], text, *lines[at + 1 :], ""]).encode()


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    keys = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, part in keys:
        yield document, key
        yield from _places(part)
