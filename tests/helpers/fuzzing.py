"""Random inputs for everything that reads what others wrote: files of runs and entries, frames, YAML and JSON."""

import json
import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from costgym.agents.base import TEXT
from costgym.agents.models.simulated import SIMULATED
from costgym.agents.world_side import ModelHandle
from costgym.envs.actions import read_action
from costgym.envs.registration import make
from costgym.experiments.board.epochs.chain import Verdict
from costgym.experiments.board.reruns import process_agent
from costgym.experiments.board.reruns.process_agent import Limits, Meter, ProcessAgent
from costgym.experiments.board.run_config import make_run_config, read_run_config
from costgym.experiments.board.submissions.manifest import read_manifest
from costgym.experiments.board.submissions.submission import differences, pack
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import parse_header, parse_trajectory
from costgym.experiments.play.trajectories.record import AgentCrash
from costgym.simulators.errors import CostGymError
from costgym.simulators.files import read_yaml
from costgym.simulators.scenario import load_scenario
from tests.helpers.forgeries import difference, edits_of
from tests.helpers.readers import Reader, edited, logs, readers

KINDS = ("edit", "frame", "yaml", "json", "file", "log")
_WORDS = (
    "action",
    "ask",
    "handle",
    "arguments",
    "ready",
    "error",
    "name",
    "calls",
    "usage",
    "plan",
    "format",
    "seed",
    "rows",
    "\x1b[2J",
)


def value(chance: random.Random, depth: int = 0) -> Any:
    """Any JSON value, with a taste for the odd."""
    kind = chance.randrange(12 if depth < 5 else 8)
    if kind < 2:
        return chance.choice([0, 1, -1, 2**63, 10**30, 1e308, -0.0, float("nan"), float("inf"), chance.random(), True, None])
    if kind < 5:
        return chance.choice(_WORDS)
    if kind < 8:
        return "".join(
            chr(chance.choice([0, 10, 27, 34, 92, 0x202E, 0xD800, 0x1F600, chance.randrange(32, 127)])) for _ in range(4)
        )
    if kind < 10:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(_WORDS): value(chance, depth + 1) for _ in range(chance.randrange(4))}


def json_bytes(chance: random.Random) -> bytes:
    """A JSON document, often broken, nested or huge in one way."""
    kind = chance.randrange(8)
    if kind == 0:
        return chance.choice([b"[", b'{"a":', b'{"action":[']) * chance.choice([10, 1000, 100_000])
    if kind == 1:
        return b'{"action":' + b"9" * chance.choice([10, 5000, 200_000]) + b"}"
    text = json.dumps(value(chance)).encode()
    if kind == 2:
        return text[: chance.randrange(len(text) + 1)]
    if kind == 3:
        return bytes(chance.randrange(256) for _ in range(chance.randrange(60)))
    if kind == 4:
        return text.replace(b":", b': 1, "name":', 1)
    return text


def yaml_text(chance: random.Random, scenario: str) -> str:
    """A YAML document: an edited scenario, aliases upon aliases, tags, broken structures."""
    kind = chance.randrange(6)
    if kind == 0:
        width, depth = chance.randrange(1, 12), chance.randrange(1, 12)
        levels = [f"l{n}: &l{n} [{', '.join([f'*l{chance.randrange(n)}'] * width)}]" for n in range(1, depth)]
        return "\n".join(["l0: &l0 [x, y]", *levels])
    if kind == 1:
        return chance.choice(
            ["[", "{a: ", "- ", "? ", "&a [*a, ", "!!python/object/apply:os.system [x]\n", "!!set {a, b}\n"]
        ) * chance.choice([1, 50, 3000])
    if kind == 2:
        return yaml.safe_dump(_plain(value(chance)), allow_unicode=True)
    lines = scenario.splitlines()
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(lines))
        lines[at] = chance.choice(
            [
                lines[at] + lines[at],
                lines[chance.randrange(len(lines))],
                lines[at].partition(":")[0] + ": " + repr(_plain(value(chance))),
            ]
        )
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value).replace("NaN", "1").replace("Infinity", "2").replace("\\ud800", "?"))


class Ground:
    """A small run, an entry of it and an agent's process that is none, which inputs are tried on.

    Args:
        folder: empty.
    """

    def __init__(self, folder: Path) -> None:
        terms: dict[str, Any] = {"budgets": "price=10", "episodes": 1, "seed": 3}
        self.folder = folder
        self.board = run(make_run_config("quick", agents=["greedy"], **terms), folder / "board").folder
        self.packed = pack(self.board, folder / "packed", "A", "a@example.org")
        self._edits = {path: self._edits_of(path) for path in (self.board, self.packed)}
        self._scenario = (Path(process_agent.__file__).parents[3] / "simulators/presets/marketplace.yaml").read_text()
        env = make("costgym/MarketplaceChat-v0", disable_env_checker=True)
        env.reset(seed=0)
        self._handles = ProcessAgent._models_of("own.py:Mine", TEXT, SIMULATED, None)
        self._handles[0].begin(env.unwrapped, 0)
        self._honest = self._claims()
        for name in ("readers", "logs"):
            (folder / name).mkdir()
        self.readers, self.logs = readers(folder / "readers", self.board), logs(folder / "logs")

    def _claims(self) -> dict[str, Any]:
        """What a manifest says that replay can check."""
        document = json.loads((self.packed / "manifest.json").read_text(encoding="utf-8"))
        return {
            "run": {**document["run"], "model": "", "version": ""},
            **{name: document[name] for name in ("files", "rows", "format")},
        }

    def _edits_of(self, folder: Path) -> Iterator[tuple[str, bytes, bytes]]:
        return edits_of(folder, random.Random(0))

    def try_one(self, kind: str, chance: random.Random) -> str:
        """Try one input; returns "refused", "read", "passed" for a lie that was believed, or what went wrong."""
        return str(getattr(self, f"_{kind}")(chance))

    def _edit(self, chance: random.Random) -> str:
        base = chance.choice([self.board, self.packed])
        name, before, after = next(self._edits[base])
        path = base / name
        path.write_bytes(after)
        try:
            verdict = verify(base)
            if verdict.problems:
                return "refused"
            manifest = read_manifest(self.packed)[0]
            if base == self.packed and manifest is not None and differences(read_run_config(self.board), manifest.run):
                return "refused"  # as `leaderboard --add` does
            # names, contacts, the model and the version (of the same worlds) are the entry's own words
            believed = name == "manifest.json" and self._claims() == self._honest
            return "read" if believed else f"passed: {name}: {difference(before, after)}"
        except CostGymError:
            return "refused"
        finally:
            path.write_bytes(before)

    def _file(self, chance: random.Random) -> str:
        return self._edited(self.readers, chance)

    def _log(self, chance: random.Random) -> str:
        return self._edited(self.logs, chance)

    def _edited(self, readers: Mapping[str, Reader], chance: random.Random) -> str:
        name = chance.choice(sorted(readers))
        path, read = readers[name]
        before = path.read_bytes()
        path.write_bytes(edited(before, chance))
        try:
            with warnings.catch_warnings(action="ignore"):
                read()
            return "read"
        except CostGymError as error:
            words = str(error)
            is_sentence = words and "\n" not in words and len(words) < 2000
            return "refused" if is_sentence else f"crash: {name}: no sentence: {words[:200]}"
        except Exception as error:
            return f"crash: {name}: {type(error).__name__}: {error!s:.200}"
        finally:
            path.write_bytes(before)

    def _frame(self, chance: random.Random) -> str:
        body = json_bytes(chance)
        length = chance.choice([len(body)] * 4 + [0, 2**40, len(body) + 1])
        if chance.random() < 0.4:
            arguments = chance.choice(
                [[[value(chance)], [value(chance)], "act"], [value(chance), value(chance)], value(chance)]
            )
            ask = chance.choice(["complete", "search", "choose", value(chance)])
            body = json.dumps({"ask": ask, "handle": chance.choice([0, 0, 0, value(chance)]), "arguments": arguments}).encode()
            length = len(body)
        frame = length.to_bytes(8, "big") + body
        if chance.random() < 0.2:
            frame = frame[: chance.randrange(len(frame) + 1)]
        path = self.folder / "frame"
        path.write_bytes(frame)
        agent = _Heard(path, self._handles)
        try:
            action = agent.act({}, {})
        except AgentCrash as error:
            return "refused" if len(str(error)) < 2000 else "crash: a long message"
        finally:
            agent._in.close()
        return "read" if isinstance(action, str | int) else f"passed: {action!r:.80}"

    def _yaml(self, chance: random.Random) -> str:
        path = self.folder / "world.yaml"
        path.write_text(yaml_text(chance, self._scenario), encoding="utf-8", errors="replace")
        try:
            read_yaml(path)
            load_scenario(str(path))
            return "read"
        except CostGymError as error:
            return "refused" if str(error) else "crash: an error without words"

    def _json(self, chance: random.Random) -> str:
        body = json_bytes(chance)
        text = body.decode("utf-8", "replace")
        read_action(text)
        (self.folder / "x").mkdir(exist_ok=True)
        for name in ("manifest.json", "run.json"):
            (self.folder / "x" / name).write_bytes(body)
        believed = []
        with suppress(CostGymError):
            believed += [read_manifest(self.folder / "x")[0]]
        for read in (
            lambda: read_run_config(self.folder / "x"),
            lambda: EpisodeResult.from_json(text),
            lambda: parse_header(text, Path("x")),
            lambda: parse_trajectory(text, Path("x"), 2),
        ):
            try:
                believed.append(read())
            except CostGymError:
                continue
        with suppress(ValueError):
            believed.append(Verdict.model_validate_json(body))
        values = [value for value in believed if value is not None]
        return f"passed: {values[0]!r:.80}" if values else "refused"


class _Heard(ProcessAgent):
    """An agent's process of which one frame is heard.

    Args:
        frame: file that holds it.
        handles: models that it may ask.
    """

    def __init__(self, frame: Path, handles: tuple[ModelHandle, ...]) -> None:
        self.handles, self.limits, self._questions, self._lost = handles, Limits(), 0, False
        self._starts, self._counts, self._meter = 1, {}, Meter()
        self._in = frame.open("rb")

    def _say(self, content: Any) -> None:
        pass
