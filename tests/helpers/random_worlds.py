"""Random scenarios over the declared ranges, their borders among them, as plain documents."""

import math
from random import Random
from typing import Any

from costgym.simulators.bounds import BOUNDS
from costgym.simulators.failures import KINDS, PRESETS, SILENT_KINDS

Document = dict[str, Any]
USUAL: dict[str, tuple[float, float]] = {
    "profile.fee": (0, 10),
    "profile.latency_s": (0.05, 10),
    "profile.latency_spread": (0, 1.5),
    "profile.cold_start_s": (0.1, 5),
    "profile.keep_alive_s": (0, 20),
    "profile.concurrency": (1, 3),
    "profile.rate_limit": (1, 3),
    "profile.window_s": (1, 20),
    "profile.quota": (1, 4),
    "profile.timeout_s": (0.5, 10),
    "profile.gpu_cons_mb": (100, 900),
    "profile.gpu_inst_mb": (0, 300),
    "events.at_s": (0, 20),
    "events.factor": (0.5, 2),
    "failures.bursts.every_s": (1, 20),
    "failures.bursts.lasts_s": (0.5, 10),
    "failures.beta": (0.3, 3),
    "gateway_s": (0.01, 1),
    "ttft_s": (0, 2),
    "tokens_per_s": (10, 100),
    "slots": (1, 4),
    "gpu_capacity_mb": (500, 2000),
    "max_price": (10, 100),
    "tokens": (0, 1000),
    "judge.curve": (0.5, 2),
}
"""Usual ranges, from which most numbers are drawn, so that calls meet limits, outages and each other."""


BORDER = 0.04  # the chance that a number lies on a border of its range instead of in its usual part


class Writer:
    """Writes random scenarios."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def number(self, path: str) -> float:
        """Return a number for a place of a scenario."""
        random, (low, high, _, whole) = self.random, BOUNDS[path]
        if random.random() < BORDER:
            inner = (low, high) if whole else (low, high, math.nextafter(low, high), math.nextafter(high, low))
            return random.choice(inner)
        usual = USUAL.get(path, (low, high))
        if whole:
            return random.randint(int(usual[0]), int(usual[1]))
        return round(random.uniform(*usual), random.choice((0, 1, 3, 9))) if usual != (low, high) else random.uniform(low, high)

    def some(self, path: str, chance: float, into: Document) -> None:
        """Fill a setting with this chance."""
        if self.random.random() < chance:
            low, high, _, _ = BOUNDS[path]
            into[path.rpartition(".")[2]] = min(high, max(low, self.number(path)))

    def scenario(self) -> Document:
        """Return a whole scenario with tools of its own."""
        random = self.random
        needs = random.randint(1, 3)
        document: Document = {"name": "random", "seed": random.randrange(1000), "source": self.source(needs)}
        for field in ("gateway_s", "ttft_s", "tokens_per_s", "max_price", "slots"):
            self.some(field, 0.3, document)
        self.some("gpu_capacity_mb", 0.4, document)
        document["failures"] = self.failures()
        if isinstance(document["failures"], dict) and "bursts" in document["failures"] and random.random() < 0.4:
            self.stretch(document)
        document["pricing"] = random.choice(("flat", "flat", "faas", "faas-aws"))
        document["bill_failures"], document["bill_cold_start"] = random.random() < 0.7, random.random() < 0.4
        document["enforcement"] = random.choice(("terminate", "refuse", "record"))
        document["budget"] = self.budget(document["pricing"] == "flat")
        if random.random() < 0.4:
            document["tokens"] = {"input": self.number("tokens"), "output": self.number("tokens")}
        if random.random() < 0.5:
            document["events"] = [self.event() for _ in range(random.randint(1, 4))]
        if random.random() < 0.3:
            document["judge"] = {"all_facts": random.random(), "none": random.random()}
            document["judge"]["curve"] = max(1e-3, self.number("judge.curve"))
        return document

    def stretch(self, document: Document) -> None:
        """Let calls last for hundreds of outages, so that the smallest difference in their lengths adds up."""
        random = self.random
        document["failures"] |= {"bursts": {"every_s": random.uniform(1, 3), "lasts_s": random.uniform(0.5, 2)}, "usable": 1.0}
        for tool in document["source"]["tools"]:
            tool["profile"] |= {"latency_s": [random.uniform(300, 3000)], "reliability": 1.0}
            tool["profile"].pop("timeout_s", None)

    def source(self, needs: int) -> Document:
        random = self.random
        tools = []
        for index in range(random.randint(needs, 6)):
            capability = f"c{index if index < needs else random.randrange(needs + 1)}"
            tools.append({"name": f"t{index}", "capability": capability, "profile": self.profile()})
        tasks: list[Document] = []
        for number in range(random.randint(1, 3)):
            count = random.randint(1, needs)
            wanted = []
            for index in range(count):
                arguments: Document = {"key": f"k{number}-{index}"}
                if index and random.random() < 0.4:
                    arguments["before"] = "{0}"
                # some tasks need two facts of one capability, and some facts need not be in the answer
                which = random.randrange(count) if random.random() < 0.3 else index
                need: Document = {"capability": f"c{which}", "fact": f"fact {number} {index}", "arguments": arguments}
                if random.random() < 0.3:
                    need["asked"] = True
                if index and random.random() < 0.2:
                    need["optional"] = True
                wanted.append(need)
            if "{0}" in str(wanted) and all(need.get("optional") for need in wanted[1:]):
                wanted[0]["asked"] = True
            tasks.append({"query": f"query {number}", "needs": wanted, "size_level": random.randrange(4)})
        if random.random() < 0.4:
            self.write(tools, random.choice(sorted({need["capability"] for task in tasks for need in task["needs"]})))
        return {"kind": "own", "tools": tools, "tasks": tasks}

    def write(self, tools: list[Document], capability: str) -> None:
        """Let the tools of a capability write, with others that check and take back what they write."""
        random = self.random
        for tool in tools:
            if tool["capability"] == capability:
                tool |= {"writes": True, "idempotent": random.random() < 0.4, "happens": random.choice((0.0, 0.5, 1.0))}
                if random.random() < 0.4:
                    tool["settles_s"] = random.choice((0.5, 5.0, 60.0))
        for role in ("checks", "compensates"):
            if random.random() < 0.8:
                tools.append({"name": role, "capability": role, role: capability, "profile": self.profile()})

    def profile(self) -> Document:
        random = self.random
        profile: Document = {
            "fee": max(0.0, self.number("profile.fee")),
            "reliability": random.choice((0.0, 1.0, random.random(), 0.5)),
        }
        levels = range(random.randint(1, 3))
        profile["latency_s"] = [min(86_400.0, max(0.0, self.number("profile.latency_s"))) for _ in levels]
        for name, chance in (
            ("latency_spread", 0.5), ("cold_start_s", 0.3), ("keep_alive_s", 0.3), ("concurrency", 0.3), ("rate_limit", 0.2),
            ("window_s", 0.4), ("quota", 0.15), ("timeout_s", 0.4), ("gpu_cons_mb", 0.3), ("gpu_inst_mb", 0.2),
        ):  # fmt: skip
            self.some(f"profile.{name}", chance, profile)
        if random.random() < 0.15:
            profile["latency_quantiles"] = [0.0, *sorted(random.uniform(0, 3) for _ in range(random.randint(1, 9))), 3.0]
        return profile

    def failures(self) -> Any:
        random = self.random
        if random.random() < 0.3:
            return random.choice(sorted(PRESETS))
        failures: Document = {
            name: random.random() for name in ("usable", "slip", "persistence", "sticky") if random.random() < 0.5
        }
        if random.random() < 0.4:
            ways = (*KINDS, *SILENT_KINDS)
            failures["kinds"] = {name: random.choice((0.0, 1.0, random.random())) for name in ways} | {"server_error": 0.5}
        if random.random() < 0.4:
            failures["bursts"] = {
                "every_s": max(1.0, self.number("failures.bursts.every_s")),
                "lasts_s": max(1e-3, self.number("failures.bursts.lasts_s")),
                **({"under_way": True} if random.random() < 0.4 else {}),
                **({"tools": ["t0"]} if random.random() < 0.3 else {}),
            }
        return failures

    def budget(self, flat: bool) -> Document:
        random, limits = self.random, {}
        for name, high in (("price", 30.0 if flat else 1.0), ("seconds", 40.0), ("tokens", 2000.0), ("calls", 8.0)):
            if random.random() < (0.5 if name == "price" else 0.2):
                limits[name] = max(1e-6, round(random.uniform(0, high), random.choice((0, 6))) or high)
        return limits

    def event(self) -> Document:
        random = self.random
        event: Document = {
            "kind": random.choice(("price_change", "ban", "unban", "preference_change")),
            "at_s": max(0.0, self.number("events.at_s")),
        }
        if random.random() < 0.5:
            event["share"] = random.random()
        if event["kind"] == "price_change":
            event["factor"] = min(30.0, max(1 / 30, self.number("events.factor")))
        return event
