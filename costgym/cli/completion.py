"""Names that a shell completes: of agents, environments, scenarios and suites."""

from collections.abc import Callable, Iterable


def _agents() -> Iterable[str]:
    from costgym.agents.registry import agent_names

    return agent_names()


def _environments() -> Iterable[str]:
    import costgym

    return (name.removeprefix("costgym/") for name in (*costgym.ENV_IDS, *costgym.LEVEL_IDS))


def _scenarios() -> Iterable[str]:
    from costgym.simulators.scenario import scenario_names

    return scenario_names()


def _suites() -> Iterable[str]:
    from costgym.experiments.board.suites import SUITES

    return SUITES


NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "agent": _agents, "agents": _agents, "env": _environments, "scenario": _scenarios, "suite": _suites,
}  # fmt: skip


def completed(setting: str) -> Callable[[str], list[str]] | None:
    """A function that completes the names of a setting, the last one of several between commas; None for any other setting."""
    if setting not in NAMES:
        return None

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in NAMES[setting]() if name.startswith(last)]

    return complete
