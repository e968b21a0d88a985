"""The words of version 1 for tasks that change the world: tools, things and requests of each line of business."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.marketplace.english import word_list
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.tools import Catalog


@dataclass(frozen=True, slots=True)
class Wording:
    """How a line of business is spoken of. Titles and texts are those of tools that find, write, check and take back."""

    thing: str  # what is looked up, in a pattern
    lists: tuple[str, ...]  # the word lists that the pattern is filled from
    parameter: str  # of the tools that find
    code: str  # parameter of the tools that write, check and take back
    titles: tuple[str, str, str, str]
    texts: tuple[str, str, str, str]
    late: str  # said of a tool whose effects others see late
    request: str
    ask: str  # asks for the reference
    wishes: tuple[str, str]  # for what is found, and for what writing returns


_CUSTOMERS = ("{} {} {}", ("first", "initials", "last"))
WORDINGS = {
    "Travel": Wording(
        "{} {} in {}", ("hotel_adjectives", "hotel_names", "cities"), "hotel", "room_code",
        ("find_room", "book_room", "count_bookings", "cancel_booking"),
        (
            "Finds a free room at a hotel and returns its code.", "Books a room by its code and returns a booking reference.",
            "Returns the number of bookings of a room.", "Cancels a booking of a room.",
        ),
        "It can take up to 20 seconds until others see the booking.", "Please book one room at the {} for tonight.",
        "Please also give me the booking reference.",
        ("the code of a free room at the {}", "the booking reference of a room at the {}"),
    ),
    "Payments": Wording(
        *_CUSTOMERS, "customer", "invoice_number",
        ("find_open_invoice", "pay_invoice", "count_payments", "reverse_payment"),
        (
            "Finds the open invoice of a customer and returns its number.",
            "Pays an invoice by its number and returns a payment reference.", "Returns the number of payments of an invoice.",
            "Reverses a payment of an invoice.",
        ),
        "It can take up to 20 seconds until others see the payment.", "Please pay the open invoice of {}.",
        "Please also give me the payment reference.",
        ("the number of the open invoice of {}", "the payment reference for the invoice of {}"),
    ),
    "Refunds": Wording(
        *_CUSTOMERS, "buyer", "order_number",
        ("find_disputed_order", "refund_order", "count_refunds", "reverse_refund"),
        (
            "Finds the disputed order of a buyer and returns its number.",
            "Refunds an order by its number and returns a refund reference.", "Returns the number of refunds of an order.",
            "Takes back a refund of an order.",
        ),
        "It can take up to 20 seconds until others see the refund.", "Please refund the disputed order of {}.",
        "Please also give me the refund reference.",
        ("the number of the disputed order of {}", "the refund reference for the order of {}"),
    ),
    "Tickets": Wording(
        "{} {} Festival in {}", ("adjectives", "nouns", "cities"), "event", "seat_code",
        ("find_seat", "buy_ticket", "count_tickets", "return_ticket"),
        (
            "Finds a free seat at an event and returns its code.", "Buys a ticket for a seat and returns a ticket number.",
            "Returns the number of tickets sold for a seat.", "Returns a ticket for a seat to the box office.",
        ),
        "It can take up to 20 seconds until others see the ticket.", "Please buy one ticket for the {}.",
        "Please also give me the ticket number.",
        ("the code of a free seat at the {}", "the number of a ticket for the {}"),
    ),
}  # fmt: skip


def thing_of(wording: Wording, seed: int, number: int) -> str:
    """What a task is about: another thing for every number."""
    lists = [word_list(name) for name in wording.lists]
    capacity = 1
    for words in lists:
        capacity *= len(words)
    luck = stable_integer(seed, "things", *wording.lists)
    factor = luck % capacity
    while gcd(factor, capacity) != 1:
        factor += 1
    lap, rank = divmod(number, capacity)
    rank, chosen = (factor * rank + luck // 7) % capacity, []
    for words in lists:
        rank, index = divmod(rank, len(words))
        chosen.append(words[index])
    return wording.thing.format(*chosen) + (f" {lap + 1}" if lap else "")


def worded_tool(tool: Mapping[str, Any], role: int) -> dict[str, Any]:
    """A tool of version 0, as `CustomTool` takes it, in the words of version 1. Roles are the places in `Wording.titles`."""
    wording = WORDINGS[tool["category"]]
    late = f" {wording.late}" if tool.get("settles_s") else ""
    name = f"{tool['provider'].lower()}_{wording.titles[role]}"
    parameter = wording.code if role else wording.parameter
    return {**tool, "name": name, "description": f"{wording.texts[role]}{late}", "parameters": {parameter: "string"}}


def worded_task(
    task: Mapping[str, Any], names: Mapping[str, str], lines: Sequence[str], seed: int, number: int
) -> dict[str, Any]:
    """A task of version 0, as `CustomTask` takes it, in the words of version 1: each of its `lines` has two needs."""
    needs, sentences = [], []
    for index, line in enumerate(lines):
        wording, thing = WORDINGS[line], thing_of(WORDINGS[line], seed, number)
        need, made = task["needs"][2 * index : 2 * index + 2]
        needs.append({**need, "arguments": {wording.parameter: thing}, "wish": wording.wishes[0].format(thing)})
        (code,) = made["arguments"].values()
        needs.append({**made, "arguments": {wording.code: code}, "wish": wording.wishes[1].format(thing)})
        sentences += [wording.request.format(thing), *([wording.ask] if made["asked"] else [])]
    return {**task, "query": " ".join(sentences), "needs": needs, "tools": [names[name] for name in task["tools"]]}


def keyed(market: Marketplace, keys: Sequence[str]) -> Marketplace:
    """The market whose tools have these keys, in order."""
    tools = (replace(tool, origin=key) for tool, key in zip(market.catalog, keys, strict=True))
    return Marketplace(Catalog(tools, "source.tools"), market.tasks, market.answers)
