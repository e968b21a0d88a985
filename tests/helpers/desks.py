"""Small worlds with writes for tests."""

from typing import Any

from costgym.simulators.scenario import Scenario, parse_scenario

TIMEOUTS = {"slip": 0.0, "sticky": 1.0, "persistence": 0.0, "kinds": {"timeout": 1.0}}
"""Tools of reliability 0 time out always, those of reliability 1 never fail."""
FLIGHT = {"flight": "SK-4041"}


def tool(name: str, reliability: float = 1.0, fee: float = 2.0, **more: Any) -> dict[str, Any]:
    profile = {"fee": fee, "latency_s": 1.0, "timeout_s": 5.0, "reliability": reliability}
    writes = {} if {"checks", "compensates"} & set(more) else {"writes": True}
    return {"name": name, "capability": "booking", "parameters": {"flight": "string"}, "profile": profile, **writes, **more}


def desk(*tools: dict[str, Any], failures: Any = None, **need: Any) -> dict[str, Any]:
    """A scenario whose one task is to book a flight once; `booking_status` checks and `cancel` takes back."""
    check = tool("booking_status", capability="status", checks="booking", fee=1.0)
    undo = tool("cancel", capability="cancelling", compensates="booking", fee=3.0)
    wanted = {"capability": "booking", "arguments": FLIGHT, "fact": "BK-48213", "amount": 120, **need}
    source = {"kind": "own", "tools": [*tools, check, undo], "tasks": [{"query": "Book flight SK-4041.", "needs": [wanted]}]}
    return {"name": "desk", "failures": failures or TIMEOUTS, "source": source}


def scenario(*tools: dict[str, Any], **settings: Any) -> Scenario:
    return parse_scenario(desk(*tools, **settings))
