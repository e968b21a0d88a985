"""A language model that talks nonsense, and a check that an episode with it was played to the end and paid in full.

Its replies come in the three ways that replies come: as a message, as a chat server's document, as the text of an open model.
"""

import json
from collections import Counter
from random import Random
from typing import Any

from costgym.agents.btp.experience import Experience, PastQuery
from costgym.agents.llm.session import LlmAgent
from costgym.agents.models.base import ACT, ASSISTANT, FunctionCall, Reply, reply
from costgym.agents.models.call_forms import read_calls
from costgym.agents.models.replies import read_reply
from costgym.agents.registry import make_agent
from costgym.agents.seat import begin
from costgym.simulators.pricing.prompt_cache import ModelPrices
from costgym.simulators.status import Status
from tests.helpers.playing import chat
from tests.helpers.worlds import small_world, tool

AGENTS = (
    "react", "react+prompt", "cot@5", "plan-act", "dfsdt", "dfsdt+btp", "tot-dfs+ecoact", "react+ecoact-several", "react+btp",
    "plan-act+ecoact+btp", "dfsdt+prompt+ecoact-described", "toolplanner",
)  # fmt: skip
TOOLS = ("map", "forecast", "hotel", "slow")
BUDGET = 9.0
INPUT, OUTPUT = 40.0, 160.0
"""Prices of a million tokens."""
NAMES = (
    *TOOLS, *TOOLS, "finish", "wait", "think", "tool_register", "get_weather_info", "", " ", "map ", "finish\n", "FINISH",
    "\ud800", "x" * 5000, "{}", "None", "__class__", "карта", "地図", "\x00", "map;forecast", "functions.map", "../map",
)  # fmt: skip
DEEP_LIST, DEEP_OBJECT = "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000
TEXTS = (
    "", " ", "A", "B", "neither", "I am done.", '{"plan": ["map", "forecast"]}', '{"plan": [1, {}]}', '{"plan": "map"}', "null",
    DEEP_LIST, DEEP_OBJECT, "y" * 50_000, "\ud800\udfff", "\x00\x1b[2J", "🙂" * 200, "<think>", "</tool_call>", "NaN", "[[[",
    '{"error": "no"}', "fact-0 fact-1", "Category: x; Tool: y",
)  # fmt: skip
BROKEN = (
    "{", "}", '{"city": ', '{"city": "c0"', "{'city': 'c0'}", "city=c0", '{"city": NaN}', '{"city": 1e999}',
    '{"city": "c0"} {}', "[]", "3", '"c0"', "true", "\ufeff{}", DEEP_LIST, DEEP_OBJECT,
    "x" * 120_000, '{"city": "' + "z" * 120_000 + '"}', "",
    '{"city": "c0", "city": "c1"}', '{"usage": {"input_tokens": -5}}',
)  # fmt: skip


class Nonsense:
    """Says anything, for ever; every draw comes from its own generator.

    Args:
        seed: of all it says.
    """

    name = "nonsense"

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.replies: list[Reply] = []
        self.kinds: Counter[str] = Counter()

    def reset(self, seed: int) -> None:
        self.replies.clear()

    def complete(self, messages: Any, functions: Any, purpose: str = ACT) -> Reply:
        draw = self._random.random()
        if draw < 0.5:
            kind, message = "message", reply(self._text(), self._calls(), messages, functions)
        elif draw < 0.8:
            kind, message = "server", read_reply(self._document(), messages, functions)
        else:
            text, calls, _ = read_calls(self._written())
            kind, message = "text", reply(text, calls, messages, functions)
        assert message.message.role == ASSISTANT
        self.kinds[kind] += 1
        self.replies.append(message)
        return message

    # -- what it says ------------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        return self._random.choice(TEXTS)

    def _name(self) -> Any:
        return (
            self._random.choice(NAMES)
            if self._random.random() < 0.93
            else self._random.choice((None, 3, [{}], b"map", {"a": 1}))
        )

    def _value(self, depth: int = 0) -> Any:
        kinds = 9 if depth < 3 else 6
        match self._random.randrange(kinds):
            case 0:
                return self._random.choice((None, True, False))
            case 1:
                return self._random.choice((0, -1, 2**63, 10**400, 7))
            case 2:
                return self._random.choice((0.0, float("nan"), float("inf"), -1e308, 0.5))
            case 3 | 4:
                return self._random.choice(("c0", "c1", "", "map", "\ud800", "w" * 3000, "🙂"))
            case 5:
                return self._random.choice((b"\xff", {1, 2}, (1,), Ellipsis)) if depth == 0 else "c0"
            case 6:
                return [self._value(depth + 1) for _ in range(self._random.randrange(4))]
            case _:
                keys = ("city", "name", "names", "answer", "give_up", "seconds", "", "usage", "calls", "refuse", "arguments")
                return {self._random.choice(keys): self._value(depth + 1) for _ in range(self._random.randrange(4))}

    def _arguments(self) -> Any:
        draw = self._random.random()
        if draw < 0.3:
            return self._random.choice(
                (
                    {"city": "c0"},
                    {"city": "c1"},
                    '{"city": "c0"}',
                    {"name": "map"},
                    {"names": list(TOOLS)},
                    {"name": "forecast"},
                )
            )
        if draw < 0.5:
            return self._random.choice(BROKEN)
        if draw < 0.6:
            return {"answer": self._value(), "give_up": self._value()}
        value = self._value()
        if draw < 0.8:
            try:
                return json.dumps(value)
            except (TypeError, ValueError):
                return value
        return value

    def _calls(self) -> list[FunctionCall]:
        if self._random.random() < 0.3:  # for once it makes sense: something must be there to be paid
            name = self._random.choice((*TOOLS, "tool_register"))
            known = (
                {"name": self._random.choice(TOOLS)} if name == "tool_register" else {"city": self._random.choice(("c0", "c1"))}
            )
            return [FunctionCall(name, self._random.choice((known, json.dumps(known))), "c1")]
        count = self._random.choice((0, 1, 1, 1, 1, 1, 2, 3, 40))
        return [
            FunctionCall(self._name(), self._arguments(), self._random.choice(("", "c1", "c1", "🙂"))) for _ in range(count)
        ]

    def _document(self) -> dict[str, Any]:
        wire: list[Any] = [
            {"id": self._value(2), "type": "function", "function": {"name": self._name(), "arguments": self._arguments()}}
            for _ in range(self._random.choice((0, 1, 1, 2)))
        ]
        if self._random.random() < 0.2:
            wire.append(self._value())
        message = {"role": "assistant", "content": self._random.choice((None, self._text(), self._value())), "tool_calls": wire}
        usage = self._random.choice(
            (
                {"prompt_tokens": self._random.randrange(5000), "completion_tokens": self._random.randrange(500)},
                {"prompt_tokens": self._value(), "completion_tokens": self._value()},
                {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": self._value(2)}},
                self._value(),
            )
        )
        choices = self._random.choice(
            ([{"message": message}], [{"message": message}], [{"message": self._value()}], self._value())
        )
        return {"choices": choices, "usage": usage}

    def _written(self) -> str:
        body = self._random.choice(
            (*BROKEN, '{"name": "map", "arguments": {"city": "c0"}}', '{"name": 3}', '[{"name": "finish"}]')
        )
        form = self._random.choice(
            ("<tool_call>{}</tool_call>", "[TOOL_CALLS] {}", "```json\n{}\n```", "{}", "<think>a</think>{}")
        )
        return form.replace("{}", body, 1)


class Table:
    """A world to talk nonsense in, and agents of every kind to do it."""

    def __init__(self, seed: int) -> None:
        world = small_world(
            tool("map", fee=2.0), tool("forecast", need=1, fee=3.0), tool("hotel", need=1, fee=1.0),
            tool("slow", latency_s=5.0),
            after={1: (0,)}, tokens=ModelPrices(input=INPUT, output=OUTPUT),
        )  # fmt: skip
        self.env = chat(world, budget={"price": BUDGET})
        self.model = Nonsense(seed)
        past = Experience([PastQuery("find the facts", {"map": (True, True), "forecast": (True,), "hotel": (False,)})])
        self.agents = [(name, make_agent(name, model=self.model, experience=past)) for name in AGENTS]
        self.met: Counter[str] = Counter()
        self.played = 0

    def play(self, number: int) -> int:
        """Play an episode, check it, and say how many replies it took."""
        name, agent = self.agents[number % len(self.agents)]
        assert isinstance(agent, LlmAgent)
        observation, info = self.env.reset(seed=number, options={"task": 0})
        tell = begin(agent, self.env, observation, info, number)
        over = False
        while not over:
            observation, _, terminated, truncated, info = self.env.step(agent.act(observation, tell(info)))
            over = terminated or truncated
        self.check(name, agent)
        return len(self.model.replies)

    def check(self, name: str, agent: LlmAgent) -> None:
        """Every reply is paid once, every executed call is paid, and nothing passes by the tool access."""
        episode = self.env.episode
        assert episode is not None and episode.grade is not None, name
        ledger, replies = episode.ledger, self.model.replies
        used = [(reply.usage.input_tokens, reply.usage.output_tokens) for reply in replies]
        charged = [charge for charge in ledger if charge.what == "think" and charge.tokens]
        assert [charge.tokens for charge in charged] == [sum(tokens) for tokens in used if sum(tokens)], name
        executed = [call for call in episode.calls if call.status.executed]
        assert ledger.calls == len(executed) == sum(charge.calls for charge in ledger), name
        fees = sum(charge.price for charge in ledger if charge.calls)
        assert fees == sum(call.quote for call in executed), name
        thinking = sum(charge.price for charge in ledger if charge.what == "think")
        assert abs(ledger.price - fees - thinking) < 1e-6 * max(1.0, ledger.price), name
        cached = sum(reply.usage.cached_tokens for reply in replies)
        if not cached:
            assert abs(thinking - sum(i * INPUT + o * OUTPUT for i, o in used) / 1e6) < 1e-9 * max(1.0, thinking), name
        if "btp" in name:
            assert fees <= BUDGET, name
        for part in agent.session.access if agent.session is not None else ():
            registered = getattr(part, "registered", None)
            if registered is not None:
                assert {call.tool for call in executed} <= set(registered), name
        self.met.update(call.status.label for call in episode.calls)
        self.met["episode"] += 1
        assert all(isinstance(call.status, Status) for call in episode.calls)
