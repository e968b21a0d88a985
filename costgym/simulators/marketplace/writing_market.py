"""Generate tasks that change the world: bookings, payments, refunds and tickets, at several providers each."""

from dataclasses import dataclass
from typing import Any, Literal

from costgym.simulators.bounds import within
from costgym.simulators.marketplace.custom import CustomSource
from costgym.simulators.marketplace.english_writes import keyed, worded_task, worded_tool
from costgym.simulators.marketplace.facts import make_fact
from costgym.simulators.marketplace.market import Marketplace, Source
from costgym.simulators.marketplace.tasks import Luck


@dataclass(frozen=True, slots=True)
class Line:
    """A line of business."""

    name: str
    # lookup, write: capabilities of the tools that find what is wanted, and of those that write
    lookup: str
    write: str
    prefix: str  # first letters of the codes that a write returns
    code: str  # first letters of the codes that the look-up returns
    about: tuple[str, str]  # parameter and noun of what is looked up
    request: str  # the user's words for the whole wish, with the thing in braces
    verbs: tuple[str, str, str]  # titles of the tools that write, check and take back
    value: tuple[int, int]  # lowest and highest value of what is written, in the scenario's currency


LINES = (
    Line(
        "Travel", "room_offer", "room_booking", "BK", "RM", ("hotel", "hotel"), "Book one room at the {} for tonight.",
        ("book a room", "look up bookings of", "cancel a booking of"), (60, 400),
    ),
    Line(
        "Payments", "open_invoice", "invoice_payment", "PY", "IN", ("customer", "customer"), "Pay the open invoice of {}.",
        ("pay an invoice", "list payments of", "reverse a payment of"), (20, 900),
    ),
    Line(
        "Refunds", "disputed_order", "order_refund", "RF", "OR", ("buyer", "buyer"), "Refund the disputed order of {}.",
        ("refund an order", "look up refunds of", "take back a refund of"), (10, 300),
    ),
    Line(
        "Tickets", "free_seat", "seat_ticket", "TK", "ST", ("event", "event"), "Buy one ticket for {}.",
        ("buy a ticket for a seat", "list tickets for", "return a ticket for"), (15, 250),
    ),
)  # fmt: skip
_BY_LOOKUP = {line.lookup: line.name for line in LINES}
PROVIDERS = ("Velora", "Norden", "Quickpoint", "Astera")
KEEN, SURE, KEYED, SLOW = range(4)
"""Kinds of providers of writes: cheap and unreliable, dear and reliable, with keys, and with effects that settle late."""
_FEES = ((1, 2), (4, 6), (2, 4), (1, 3))
_RELIABILITY = ((0.45, 0.7), (0.9, 0.98), (0.55, 0.8), (0.6, 0.85))


class WritingSource(Source):
    """A generated market of tools that write, with tools that look up, check and take back."""

    kind: Literal["writes"] = "writes"
    # train, test: number of tasks in each split. No two name the same thing.
    train: int = within("source.tasks", default=200)
    test: int = within("source.tasks", default=200)
    # lowest and highest number of lines of business in a task, 1 to 4; each is a look-up and a write
    lines: tuple[int, int] = (1, 2)

    def market(self, seed: int, failures: object) -> Marketplace:
        """The tools, tasks and answers of this source, as a pure function of the seed."""
        tools = [tool for line in LINES for tool in _tools(seed, line)]
        tasks = [
            _task(seed, split, index, tools, self.lines)
            for split, count in (("train", self.train), ("test", self.test))
            for index in range(count)
        ]
        if not self.world:
            return CustomSource.model_validate({"tools": tools, "tasks": tasks}).market(seed, failures)
        shown = [worded_tool(tool, _role(tool)) for tool in tools]
        names = {tool["name"]: other["name"] for tool, other in zip(tools, shown, strict=True)}
        spoken = []
        for number, task in enumerate(tasks):
            lines = [_BY_LOOKUP[need["capability"]] for need in task["needs"][::2]]
            spoken.append(worded_task(task, names, lines, seed, number))
        market = CustomSource.model_validate({"tools": shown, "tasks": spoken}).market(seed, failures)
        return keyed(market, [tool["name"] for tool in tools])


def _role(tool: dict[str, Any]) -> int:
    """Whether a tool finds, writes, checks or takes back, by its place in `Wording.titles`."""
    return 1 if "writes" in tool else 2 if "checks" in tool else 3 if "compensates" in tool else 0


def _profile(luck: Luck, fee: tuple[int, int], reliability: tuple[float, float]) -> dict[str, Any]:
    low, high = reliability
    true = round(low + (high - low) * luck.uniform(), 3)
    return {
        "fee": fee[0] + luck.below(fee[1] - fee[0] + 1),
        "latency_s": round(0.3 + 2.0 * luck.uniform(), 2),
        "latency_spread": 0.5,
        "timeout_s": 10.0,
        "reliability": true,
        "advertised_success": round(min(1.0, true + 0.1 * luck.uniform()), 2),
    }


def _tools(seed: int, line: Line) -> list[dict[str, Any]]:
    """The tools of a line: three look-ups, four writes, two checks and two that take back."""
    luck = Luck("writing tools", line.name, seed=seed)
    name, noun = line.about
    wanted, made = line.lookup, line.write
    tools: list[dict[str, Any]] = []

    def add(provider: str, role: str, capability: str, text: str, parameter: str, **more: Any) -> None:
        tools.append(
            {
                "name": f"{provider.lower()}_{role}_{made}",
                "capability": capability,
                "description": text,
                "category": line.name,
                "provider": provider,
                "parameters": {parameter: "string"},
                **more,
            }
        )

    for provider in PROVIDERS[:3]:
        text = f"Find the {wanted.replace('_', ' ')} of a {noun}; returns its code."
        add(provider, "find", wanted, text, name, profile=_profile(luck, (1, 2), (0.6, 0.95)))
    write, check, undo = line.verbs
    for kind, provider in enumerate(PROVIDERS):
        more: dict[str, Any] = {"writes": True, "profile": _profile(luck, _FEES[kind], _RELIABILITY[kind])}
        text = f"Lets you {write} by its code; returns a reference."
        if kind == KEYED:
            more["idempotent"] = True
        if kind == SLOW:
            more["settles_s"] = 20.0
            text += " Takes up to 20 seconds to be seen by others."
        add(provider, "make", made, text, wanted, **more)
    for provider in PROVIDERS[:2]:
        profile = _profile(luck, (1, 1), (0.85, 0.97))
        text = f"Lets you {check} a code; returns how many there are."
        add(provider, "check", f"{made}_status", text, wanted, checks=made, profile=profile)
        profile = _profile(luck, (2, 4), (0.8, 0.95))
        add(provider, "undo", f"{made}_reversal", f"Lets you {undo} a code.", wanted, compensates=made, profile=profile)
    return tools


def _task(seed: int, split: str, index: int, tools: list[dict[str, Any]], bounds: tuple[int, int]) -> dict[str, Any]:
    luck = Luck("writing task", split, index, seed=seed)
    low, high = bounds
    lines = luck.order(LINES)[: low + luck.below(high - low + 1)]
    needs: list[dict[str, Any]] = []
    sentences = []
    for line in lines:
        thing = f"{make_fact('person', luck.below(1 << 60))} {('A', 'B')[split == 'test']}{index}"
        code, reference = (
            f"{letters}-{10_000 + luck.below(90_000)}{index % 10}{split[1].upper()}" for letters in (line.code, line.prefix)
        )
        sentences.append(line.request.format(thing))
        first = len(needs)
        needs.append(
            {"capability": line.lookup, "arguments": {line.about[0]: thing}, "fact": code, "wish": _wish(line.lookup, thing)}
        )
        value = line.value[0] + luck.below(line.value[1] - line.value[0])
        wanted = {line.lookup: f"{{{first}}}"}
        needs.append(
            {
                "capability": line.write,
                "arguments": wanted,
                "fact": reference,
                "wish": _wish(line.write, thing),
                "amount": value,
                # half of the tasks also want to hear the reference
                "asked": luck.uniform() < 0.5,
            }
        )
        sentences += [f"Tell me the reference of the {line.write.replace('_', ' ')}."] if needs[-1]["asked"] else []
    categories = {line.name for line in lines}
    return {
        "query": " ".join(sentences),
        "needs": needs,
        "tools": [tool["name"] for tool in tools if tool["category"] in categories],
        "split": split,
    }


def _wish(capability: str, thing: str) -> str:
    return f"the {capability.replace('_', ' ')} of {thing}"
