"""The cache of prompts as it is simulated, beside what real servers reported.

    python benchmarks/real_tools/prompt_cache.py server GGUF [--requests 200] [--threads 2]   # llama.cpp, by xllamacpp
    python benchmarks/real_tools/prompt_cache.py sessions TRACELAB/round_trace.jsonl          # two sessions of coding agents

`server`: agents play episodes on the decisions of the simulated model, and each request goes to the server too, which reports
how much of the prompt it had in its cache. `PrefixCache` predicts that from the digests and lengths of the prompt's parts; a
length is that of the part in the model's template and tokens. In the last episodes the served model decides.
An episode begins with an empty cache; episodes in the file of results are not sent again. `sessions`: from the second round on,
from appended tokens and times alone.
"""

import argparse
import json
import os
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
import costgym
from benchmarks.real_tools.forged_model import served
from costgym.agents.btp.experience import Experience
from costgym.agents.models.base import ACT, SYSTEM, USER, Function, Message, Reply, prompt_parts, reply, words
from costgym.agents.models.openai import OpenAIModel, chat_messages
from costgym.agents.models.simulated import Simulated
from costgym.agents.models.usage import read_server_usage
from costgym.agents.registry import find_agent, make_agent
from costgym.experiments.play.call_logs.model_calls import read_model_calls
from costgym.experiments.play.costs.price_list import AS_LISTED
from costgym.experiments.play.costs.trace_costs import prices_of_calls, rescheduled
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import ExperienceSettings, past_uses
from costgym.simulators.calls import Segment, Usage
from costgym.simulators.pricing.prompt_cache import CacheRules, ModelPrices, PrefixCache
from costgym.simulators.scenario import load_scenario

AGENTS = ("react", "react+ecoact", "react+ecoact-append", "react+btp", "react+btp-stable")
ENV = "costgym/MarketplaceChat-v0"  # results of twenty tokens: a processor reads some twenty tokens a second
RULES = ModelPrices(input=1, output=1, cached=0, cache=CacheRules(minimum_tokens=1, ttl_s=1e9, order="system"))
CANDIDATES, OWN_EPISODES, OWN_TOKENS = 4, 2, 256
RESULTS = Path("benchmarks/results/prompt_cache.json")
OTHER = "~"  # a part that begins like no other


class Server:
    """A llama.cpp server: its counts, and the lengths of the parts of a prompt in its model's tokens."""

    def __init__(self, url: str) -> None:
        self.url = url.removesuffix("/v1")
        self._lengths: dict[tuple[str, ...], int] = {}

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=1800) as answer:
            document: dict[str, Any] = json.load(answer)
        return document

    def tokens(self, messages: Sequence[Message], functions: Sequence[Function]) -> list[int]:
        written = written_request(messages, functions)
        text = self.post("/apply-template", **written)["prompt"]
        return [int(token) for token in self.post("/tokenize", content=text, parse_special=True)["tokens"]]

    def segments(self, messages: Sequence[Message], functions: Sequence[Function]) -> list[Segment]:
        """The parts of a prompt as the package has them, each as long as the prompt says the same whatever follows it."""
        system = words(messages[0].content)
        digests = [digest for digest, _ in prompt_parts(messages, functions, "system")]
        whole, ends = self.tokens(messages, functions), []
        for count in range(1, len(digests)):
            key = (*digests[:count], str(count < len(system) + len(functions)), str(bool(functions)))
            if key not in self._lengths:
                self._lengths[key] = common(whole, self.tokens(*cut(messages, functions, system, count)))
            ends.append(self._lengths[key])
        ends.append(len(whole))  # the last part, and the words that ask for the reply
        return [(digest, end - begin) for digest, begin, end in zip(digests, [0, *ends], ends, strict=False)]


def cut(
    messages: Sequence[Message], functions: Sequence[Function], system: Sequence[str], count: int
) -> tuple[list[Message], Sequence[Function]]:
    """A prompt that begins with so many parts of another, and goes on otherwise."""
    behind = count - len(system)
    if behind < 0:
        return [Message(SYSTEM, "".join(system[:count]) + OTHER), Message(USER, OTHER)], functions
    if behind < len(functions):
        other = Function(OTHER, "", {"type": "object", "properties": {}})
        return [messages[0], Message(USER, OTHER)], [*functions[:behind], other]
    return [*messages[: behind - len(functions) + 1], Message(USER, OTHER)], functions


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two prompts begin with in common."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def written_request(messages: Sequence[Message], functions: Sequence[Function]) -> dict[str, Any]:
    """A request as `OpenAIModel` sends it."""
    tools = [function.document() for function in functions]
    return {"messages": chat_messages(messages), **({"tools": tools} if tools else {})}


class Watched:
    """A model that decides, and a server whose cache every request goes through.

    Attributes:
        requests: of each, tokens of the prompt, those predicted and those reported from the cache, and the estimates that
            the package makes without the model's tokens.
    """

    on_world_side = True

    def __init__(self, server: Server, real: bool) -> None:
        self.server, self.simulated, self.name = server, Simulated(), "served" if real else "simulated"
        self.known: list[
            tuple[int, int]
        ] = []  # tokens of the next requests and those that the server reported, in an earlier run
        self.own = [
            OpenAIModel("served", f"{server.url}/v1", timeout_s=1800, max_tokens=OWN_TOKENS, extra_body={"cache_prompt": flag})
            for flag in (True, False) if real
        ]  # fmt: skip
        self.requests: list[dict[str, int]] = []

    def begin(self, world: Any, seed: int) -> None:
        self.simulated.begin(world, seed)
        self.exact, self.estimated, self.first = PrefixCache(RULES), PrefixCache(RULES), True

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        assert messages[0].role == SYSTEM
        predicted = self.exact.bill(self.server.segments(messages, functions), 0.0)
        guessed = self.estimated.bill(prompt_parts(messages, functions, "system"), 0.0)
        answer, counted = self._ask(messages, functions, purpose)
        self.first = False
        self.requests.append({
            "tokens": counted.input_tokens, "counted": predicted.input_tokens, "predicted": predicted.cached_tokens,
            "reported": counted.cached_tokens, "estimated": guessed.cached_tokens, "estimated_of": guessed.input_tokens,
        })  # fmt: skip
        return answer

    def _ask(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str) -> tuple[Reply, Usage]:
        if self.known:
            tokens, reported = self.known.pop(0)
            return self.simulated.complete(messages, functions, purpose), Usage(tokens, 1, reported)
        if not self.own:
            limits = {"max_tokens": 1, "temperature": 0, "cache_prompt": not self.first}
            document = self.server.post("/v1/chat/completions", **written_request(messages, functions), **limits)
            counted = read_server_usage(document)
            assert counted is not None
            return self.simulated.complete(messages, functions, purpose), counted
        answer = self.own[self.first].complete(messages, functions, purpose)
        return reply(answer.message.content, answer.message.calls, messages, functions), answer.usage


class Player:
    """An agent at a server: its requests, and the next of its episodes."""

    def __init__(self, server: Server, agent_name: str, real: bool, first: int) -> None:
        scenario = load_scenario("marketplace-small")
        scenario = scenario.model_copy(update={"source": scenario.source.model_copy(update={"candidates": CANDIDATES})})
        past = None
        if find_agent(agent_name, ENV).needs_experience:
            past = Experience.from_jsonl(past_uses(scenario, ExperienceSettings(uses=5), Local()))
        self.env = costgym.make(ENV, scenario=scenario, documents="short", budget={"price": 40})
        self.model, self.name, self._next = (
            Watched(server, real),
            f"{agent_name}{', own replies' if real else ''}",
            first,
        )
        self.agent = make_agent(agent_name, ENV, model=self.model, experience=past)
        self.episodes: list[list[dict[str, int]]] = []

    def play(self, known: Sequence[dict[str, int]] = ()) -> None:
        """Play the next episode; `known` are its requests of an earlier run, which the server is not sent again."""
        self.model.requests, self.model.known = [], [(request["tokens"], request["reported"]) for request in known]
        list(play_many(self.env, self.agent, ENV, [self._next + len(self.episodes)], 0))
        self.episodes.append(self.model.requests)
        counts = [f"{request['predicted']}/{request['reported']}/{request['tokens']}" for request in self.model.requests]
        print(f"{self.name}, {len(self.episodes)}: predicted/reported/all {' '.join(counts)}", flush=True)

    @property
    def requests(self) -> list[dict[str, int]]:
        return [request for episode in self.episodes for request in episode]


def shares(requests: Sequence[dict[str, int]]) -> dict[str, Any]:
    tokens = sum(request["tokens"] for request in requests)
    off = [request["predicted"] - request["reported"] for request in requests]
    return {
        "requests": len(requests),
        "tokens": tokens,
        "predicted_share": sum(request["predicted"] for request in requests) / tokens,
        "reported_share": sum(request["reported"] for request in requests) / tokens,
        "estimated_share": sum(r["estimated"] for r in requests) / sum(r["estimated_of"] for r in requests),
        "within_1_percent": sum(abs(d) <= 0.01 * r["tokens"] for d, r in zip(off, requests, strict=True)),
        "largest_difference": max(off, key=abs),
        "lengths_differ": sum(request["tokens"] != request["counted"] for request in requests),
    }


def check_server(options: argparse.Namespace) -> None:
    """Play the agents in turn, an episode each, until there are enough requests; keep what there is after each turn."""
    with served(options.source, options.threads, options.context):
        server = Server(os.environ["OPENAI_BASE_URL"])
        players = [Player(server, agent, False, 20 * index) for index, agent in enumerate(AGENTS)]
        deciding = Player(server, "react", True, 20 * len(AGENTS))
        earlier = read(options.out).get("server", {}).get("requests", {})
        for player in players:
            for episode in earlier.get(player.name, []):
                player.play(episode)
        while (count := sum(len(player.requests) for player in players)) < options.requests or len(deciding.requests) == 0:
            for player in players if count < options.requests else [deciding] * options.own_episodes:
                player.play()
                report(options, [*players, deciding])


def report(options: argparse.Namespace, players: Sequence[Player]) -> None:
    rows = {player.name: player.requests for player in players if player.requests}
    episodes = {player.name: player.episodes for player in players if player.requests}
    simulated = [request for player in players if not player.model.own for request in player.requests]
    summaries = {**{name: shares(requests) for name, requests in rows.items()}, "all agents": shares(simulated)}
    save(options.out, {"server": {"model": options.source.name, "summary": summaries, "requests": episodes}})
    print(json.dumps(summaries["all agents"]), flush=True)


def check_sessions(options: argparse.Namespace) -> None:
    calls = read_model_calls(options.source).calls
    usages = rescheduled(options.source, calls, prices_of_calls(calls, None, AS_LISTED))
    rows: dict[str, list[dict[str, int]]] = {}
    for call, usage in zip(calls, usages, strict=True):
        rounds = rows.setdefault(call.model, [])
        tokens, reported, predicted = call.usage.input_tokens, call.usage.cached_tokens, usage.cached_tokens
        rounds.append({"tokens": tokens, "predicted": predicted, "reported": reported})
        print(f"{call.model} {len(rounds) - 1}: {tokens} tokens, {predicted} predicted, {reported} reported, "
              f"{predicted - reported:+d}")  # fmt: skip
    scored = {model: rounds[1:] for model, rounds in rows.items()}
    scored["all"] = [row for rounds in scored.values() for row in rounds]
    summary = {}
    for model, rounds in scored.items():
        total = sum(row["tokens"] for row in rounds)
        parts = {f"{name}_share": sum(row[name] for row in rounds) / total for name in ("predicted", "reported")}
        summary[model] = {"rounds": len(rounds), **parts}
        print(model, json.dumps(summary[model]))
    save(options.out, {"sessions": {"summary": summary, "rounds": rows}})


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(path: Path, part: dict[str, Any]) -> None:
    path.write_text(json.dumps({**read(path), **part}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("server", "sessions"))
    parser.add_argument("source", type=Path)
    parser.add_argument("--requests", type=int, default=200, help="on the simulated model's decisions")
    parser.add_argument("--own-episodes", type=int, default=OWN_EPISODES, help="on the served model's decisions")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    check_server(chosen) if chosen.what == "server" else check_sessions(chosen)
