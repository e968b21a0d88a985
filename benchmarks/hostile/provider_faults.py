"""Play a leaderboard against a model server that fails in every way a provider does, and kill it on the way.

    python benchmarks/hostile/provider_faults.py --episodes 1000 --kills 10 --json benchmarks/results/provider_faults.json

The server solves the tasks, but a share of the requests meets a fault, which follows from the request's content and the number
of its try, so that a run that was killed meets the same ones. `costgym leaderboard` is run three times: without faults, with
them, and with them while it is killed by SIGKILL again and again. Then

* every class that the server counted must be what the episodes and the board say,
* nothing may be played that the server did not say in a whole reply (or, for a call, in a reply that it said was broken),
* episodes that met only faults that pass must be those without faults,
* the killed run must have the bytes of the undisturbed one.

A second part measures the limit of requests: 200 of 0.5 s with `--concurrency 16`, in one process and with `--jobs 2`.
"""

import argparse
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
import costgym
from benchmarks.report import write_report
from costgym.agents.models.base import FORMS, MISHAPS, OUTCOMES, RETRIED
from costgym.agents.models.openai import KEY_VARIABLE, URL_VARIABLE
from costgym.experiments.play.episodes import INFRASTRUCTURE_TRIES
from costgym.experiments.play.trajectories.format import Trajectory, read_trajectories
from costgym.simulators.draws import stable_integer
from costgym.simulators.tasks import Task
from tests.helpers.model_server import Server, wire_reply

PASSING = ("429", "500", "time-out", "body cut off")  # on the first tries of a request, one or two
BROKEN = ("no JSON", "down")  # once for a request, and for good
REPLIES = {
    "content filter": "filtered", "filter refuses request": "filtered", "refusal": "refused", "text cut off": "truncated",
    "call cut off": "truncated", "garbled arguments": "malformed", "empty": "malformed",
    "stray calls": "malformed",
}  # fmt: skip
"""Faults of a reply, with the class that each belongs to."""
FAULTS = (*PASSING, *BROKEN, *REPLIES)
HALF = "HALF OF"  # begins what no whole reply says
TIMEOUT_S = 5.0
CONCURRENCY = 16
SCENARIO = "marketplace-small"
MODEL = f"openai:stub,timeout_s={TIMEOUT_S:g}"
SETTLED_S = 0.3  # time in which a client has read an answer and noted it
VOID = "void"
JSON = {"Content-Type": "application/json"}


class Provider(Server):
    """A chat API that solves tasks, and at a share of the requests fails.

    `met` counts the faults of each episode, which its seed names, by the columns of a board; `calls` and `answers_said` are
    what it said, `replied` how often it replied to a request; `faults` counts the faults by kind, those that pass for each try.
    """

    def __init__(self, tasks: Mapping[str, Task], share: float, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__()
        self.tasks, self.share, self.timeout_s = tasks, share, timeout_s
        self.met: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.calls: dict[int, set[tuple[str, str]]] = defaultdict(set)
        self.answers_said: dict[int, set[str]] = defaultdict(set)
        self.faults: Counter[str] = Counter()
        self.replied: Counter[str] = Counter()
        self.broken: set[str] = set()
        self.broken_at, self.deciding = 0.0, threading.Lock()

    def answer(self, request: dict[str, Any], headers: dict[str, str]) -> Any:
        """A reply, or the fault that the request's digest draws."""
        digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode())
        chance, draw = int.from_bytes(digest.digest()[:8]) / 2**64, digest.digest()[8]
        kind = FAULTS[draw % len(FAULTS)] if chance < self.share else ""
        tries = int(headers["x-stainless-retry-count"])
        whole = self.solve(request)
        with self.deciding:
            return self._answer(kind, tries, 1 + digest.digest()[9] % 2, whole, request["seed"], digest.hexdigest())

    @contextmanager
    def settled(self) -> Iterator[None]:
        """A moment in which no answer without JSON is on its way: nobody could know whether the client has noted it."""
        with self.deciding:
            while time.monotonic() - self.broken_at < SETTLED_S:
                time.sleep(0.01)
            yield

    def _answer(self, kind: str, tries: int, failing: int, whole: dict[str, Any], seed: int, digest: str) -> Any:
        met = self.met[seed]
        name, arguments = self._call_of(whole)
        if kind in PASSING:
            if tries < failing:
                self.faults[kind] += 1
                return self._passing(kind, whole)
            kind = ""
        if kind == "down":
            self.faults[kind] += digest not in met[VOID]
            met[VOID].add(digest)
            return 500, json.dumps({"error": {"message": "the engine is down"}}), {**JSON, "retry-after-ms": "5"}
        if kind == "no JSON":
            met[RETRIED].add(digest)
            if digest not in self.broken:
                self.broken.add(digest)
                self.faults[kind] += 1
                self.broken_at = time.monotonic()
                return 200, f"<html>{HALF} {arguments}</html>", {}
            kind = ""
        self.replied[digest] += 1
        if kind:
            self.faults[kind] += digest not in met[REPLIES[kind]]
            met[REPLIES[kind]].add(digest)
        choice = whole["choices"][0]
        message, choice["finish_reason"] = choice["message"], "tool_calls"
        match kind:
            case "filter refuses request":
                return 400, json.dumps({"error": {"message": "filtered", "code": "content_filter"}}), JSON
            case "content filter":
                choice["finish_reason"] = "content_filter"
                message["content"] = f"{HALF} {arguments}"
                return whole
            case "refusal":
                message["refusal"] = f"{HALF} {arguments}"
                return whole
            case "text cut off":
                choice["finish_reason"] = "length"
                message["content"], message["tool_calls"] = f"{HALF} {arguments}", None
                return whole
            case "empty":
                message["tool_calls"] = None
                return whole
            case "stray calls":
                message["content"], message["tool_calls"] = f"{HALF} {arguments}", [3]
                return whole
            case "call cut off" | "garbled arguments":
                choice["finish_reason"] = "length" if kind == "call cut off" else "tool_calls"
                arguments = arguments[: len(arguments) // 2] + ("" if kind == "call cut off" else f"{HALF}}}")
                message["tool_calls"][0]["function"]["arguments"] = arguments
        met["native"].add(digest)
        self.calls[seed].add((name, arguments))
        if name == "finish" and not kind:
            self.answers_said[seed].add(json.loads(arguments)["answer"])
        return whole

    @staticmethod
    def _call_of(document: dict[str, Any]) -> tuple[str, str]:
        function = document["choices"][0]["message"]["tool_calls"][0]["function"]
        return function["name"], function["arguments"]

    def _passing(self, kind: str, whole: dict[str, Any]) -> Any:
        if kind == "time-out":
            return 1.2 * self.timeout_s
        if kind == "body cut off":
            text = json.dumps(whole)
            return 200, text[: len(text) // 2], {**JSON, "Content-Length": str(len(text))}
        wait = {"429": {"Retry-After": "0.05"}, "500": {"retry-after-ms": "20"}}[kind]
        return int(kind), json.dumps({"error": {"message": kind}}), {**JSON, **wait}

    def solve(self, request: dict[str, Any]) -> dict[str, Any]:
        """The next step of an honest solver: every need from its tools in turn, then the facts that were found."""
        messages = request["messages"]
        task = self.tasks[messages[1]["content"]]
        results = "\n".join(str(message["content"]) for message in messages if message["role"] == "tool")
        called = Counter(call["function"]["name"] for one in messages for call in one.get("tool_calls") or ())
        usage = {"prompt": len(messages) * 50, "completion": 20}
        for need in task.needs:
            tool = next((name for name in task.candidates if name in need.tools and not called[name]), None)
            if tool is not None and need.fact not in results:
                return wire_reply("", (tool, dict(need.arguments or {})), **usage)
        answer = "; ".join(need.fact for need in task.needs if need.fact in results)
        return wire_reply("", ("finish", {"answer": answer or "I found nothing."}), **usage)

    def expected(self, seed: int) -> dict[str, int]:
        """The counts that an episode's record must hold."""
        met = self.met[seed]
        if met[VOID] or len(met[RETRIED]) >= INFRASTRUCTURE_TRIES:
            return {VOID: 1}
        return {name: len(digests) for name, digests in sorted(met.items()) if digests}


def lookup() -> tuple[dict[str, Task], dict[str, int]]:
    """The test tasks of the scenario by their query, and their numbers by id."""
    world = costgym.make("costgym/MarketplaceChat-v1", scenario=SCENARIO).unwrapped.world
    tasks = [world.tasks[number] for number in world.tasks.numbers("test")]
    return {task.query: task for task in tasks}, {task.id: task.number for task in tasks}


def command(out: Path, episodes: int, *more: str) -> list[str]:
    board = ("leaderboard", "--agents", "react", "--model", MODEL, "--scenario", SCENARIO, "--budgets", "price=40")
    sizes = ("--episodes", str(episodes), "--seeds", "1", "--concurrency", str(CONCURRENCY), "--quiet", "--out", str(out))
    return [sys.executable, "-m", "costgym", *board, *sizes, *more]


def environment(server: Server) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name not in (KEY_VARIABLE, "COSTGYM_CACHE")}
    return {**variables, URL_VARIABLE: server.url}


def files(folder: Path) -> dict[str, bytes]:
    """Files that a user sees, in full."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if not name.startswith(".")}


def recorded(folder: Path) -> dict[int, Trajectory]:
    """The recorded episodes by the seed of their requests."""
    (path,) = (folder / "trajectories" / "text").glob("*.jsonl")
    _, episodes = read_trajectories(path)
    return {seed_of(episode.seed, episode.number): episode for episode in episodes}


def seed_of(seed: int, number: int) -> int:
    """The seed in the requests of an episode."""
    return (stable_integer(seed, "agent", number) >> 1) & 0x7FFFFFFF


def check(
    provider: Provider, folder: Path, clean: Mapping[int, Trajectory], numbers: Mapping[str, int]
) -> tuple[list[str], Any]:
    """Errors of a run under faults, and the classes of episodes as the server and the board count them."""
    wrong: list[str] = []
    played = recorded(folder)
    results = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    (row,) = json.loads((folder / "leaderboard.json").read_text())["rows"]
    of_server: Counter[str] = Counter()
    alike = 0
    if len(provider.met) != len(results):
        wrong.append(f"{len(provider.met)} episodes asked, {len(results)} were recorded")
    for result in results:
        seed = seed_of(result["seed"], numbers[result["task"]])
        expected = provider.expected(seed)
        of_server.update(expected.keys() - set(FORMS))
        counted = {VOID: 1} if result["void"] else result.get("replies", {})
        if counted != expected:
            wrong.append(f"episode {result['episode']}: expected {expected}, recorded {counted}")
        if result["void"]:
            if seed in played or result["strict"] or result["judged"]:
                wrong.append(f"episode {result['episode']}: void, but scored")
            continue
        for action in map(json.loads, played[seed].actions):
            if action["name"] == "finish":
                answer = action["arguments"]
                answered = answer.get("give_up") or answer["answer"] in provider.answers_said[seed]
            else:
                answered = action["name"] == "think" or (action["name"], written(action)) in provider.calls[seed]
            if not answered:
                wrong.append(f"episode {result['episode']}: played what nobody said: {action}")
        if not expected.keys() & set(OUTCOMES):
            alike += 1
            if core(played[seed]) != core(clean[seed]):
                wrong.append(f"episode {result['episode']}: not the one without faults")
    of_board = {name: row[name] for name in (*MISHAPS, "void_episodes") if row.get(name)}
    of_server[f"{VOID}_episodes"] = of_server.pop(VOID, 0)
    if of_board != {name: count for name, count in of_server.items() if count}:
        wrong.append(f"the server counted {dict(of_server)}, the board says {of_board}")
    return wrong, {"episodes_by_class": of_board, "as_without_faults": alike, "pass_rate": row["pass_rate"]}


def written(action: dict[str, Any]) -> str:
    """The arguments of a call as the server wrote them."""
    arguments = action["arguments"]
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def core(episode: Trajectory) -> Any:
    return episode.actions, episode.rewards, episode.observations, episode.calls, episode.charges, episode.final


def play(server: Server, out: Path, episodes: int, *more: str) -> float:
    """Run a leaderboard to its end; returns its seconds."""
    begun_s = time.monotonic()
    subprocess.run(command(out, episodes, *more), env=environment(server), stdout=subprocess.DEVNULL, check=True)
    return round(time.monotonic() - begun_s, 1)


def play_killed(provider: Provider, out: Path, episodes: int, kills: int, requests: int, seed: int) -> list[int]:
    """Run a leaderboard with kills at random moments, and at last to its end; returns the episodes on disk at each kill."""
    chance = np.random.default_rng(seed)
    problems = []
    for threshold in sorted(chance.integers(1, requests, size=kills).tolist()):
        process = subprocess.Popen(command(out, episodes), env=environment(provider), stdout=subprocess.DEVNULL)
        while len(provider.requests) < threshold and process.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.1))
        with provider.settled():
            process.send_signal(signal.SIGKILL)
        process.wait()
        log = out / "episodes.jsonl"
        problems.append(log.read_bytes().count(b"\n") if log.exists() else 0)
    play(provider, out, episodes)
    return problems


def faults(episodes: int, share: float, kills: int, seed: int) -> dict[str, Any]:
    """The first part."""
    by_query, numbers = lookup()
    servers = [Provider(by_query, chance) for chance in (0.0, share, share)]
    without, with_faults, again = servers
    with tempfile.TemporaryDirectory() as folder:
        clean, whole, part = (Path(folder, name) for name in ("clean", "whole", "part"))
        seconds = {"without_faults": play(without, clean, episodes), "with_faults": play(with_faults, whole, episodes)}
        wrong, classes = check(with_faults, whole, recorded(clean), numbers)
        at = play_killed(again, part, episodes, kills, len(with_faults.requests), seed)
        old, new = files(whole), files(part)
        wrong += [f"{name}: differs after the kills" for name in sorted(old | new) if old.get(name) != new.get(name)]
        if (part / ".replies").exists():
            wrong.append("the replies are still there")
        twice = again.replied.total() - with_faults.replied.total()
        if twice > kills * CONCURRENCY:
            wrong.append(f"{twice} replies were asked for twice, more than were on their way at the kills")
    for server in servers:
        server.close()
    return {
        "episodes": episodes, "requests": len(with_faults.requests), "requests_without_faults": len(without.requests),
        "faults": dict(sorted(with_faults.faults.items())), **classes,
        "kills": kills, "episodes_on_disk_at_kills": at, "requests_with_kills": len(again.requests),
        "replies_asked_twice": twice, "seconds": seconds, "wrong": wrong,
    }  # fmt: skip


def limit(requests: int = 200, wait_s: float = 0.5) -> dict[str, Any]:
    """The second part: a server that takes its time, with 16 requests at once."""

    def answer(request: dict[str, Any]) -> Any:
        time.sleep(wait_s)
        return (
            wire_reply("", ("finish", {"answer": "?"}))
            if len(request["messages"]) > 2
            else wire_reply("", ("no_such_tool", {}))
        )

    report: dict[str, Any] = {}
    for name, more in (("one_process", ("--jobs", "1")), ("two_processes", ("--jobs", "2"))):
        server = Server()
        server.answers = answer
        with tempfile.TemporaryDirectory() as folder:
            seconds = play(server, Path(folder, "out"), requests // 2, *more)
        server.close()
        span_s = round(server.at[-1] - server.at[0] + wait_s, 2)
        report[name] = {"requests": len(server.requests), "peak": server.peak, "seconds": span_s, "command_seconds": seconds}
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1_000)
    parser.add_argument("--share", type=float, default=0.05, help="share of the requests that meet a fault")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--part", choices=("faults", "limit"), help="one part alone")
    parser.add_argument("--json", type=Path, help="file of the report; what is in it of the other part stays")
    args = parser.parse_args()
    report: dict[str, Any] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    if args.part != "limit":
        report["faults"] = faults(args.episodes, args.share, args.kills, args.seed)
    if args.part != "faults":
        report["limit"] = limit()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    report[f"processor_seconds_{args.part or 'all'}"] = round(sum(row.ru_utime + row.ru_stime for row in used), 1)
    write_report(report, args.json, ("openai",))
    sys.exit(1 if report.get("faults", {}).get("wrong") else 0)


if __name__ == "__main__":
    main()
