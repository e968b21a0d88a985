"""From traces to a world: the users' own words become queries, and recorded results become answers.

Prices, durations and failures are fitted to the log as `calibrate` does. A call of an episode becomes a need: its arguments are
those that the query states or an earlier result holds, and its fact is what the agent's answer, or a later call, took from the
result. Episodes of which nothing can be asked are left out and counted.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from costgym.experiments.fit.calibration.calibrate import Calibration, calibrate
from costgym.experiments.fit.forge.anonymise import Anonymiser, counted
from costgym.experiments.fit.forge.sources import documents
from costgym.experiments.play.call_logs.log import Log, LoggedCall, callable_names, read_log
from costgym.simulators.errors import ConfigError
from costgym.simulators.forge.readers.operations import Operation, Skipped
from costgym.simulators.forge.verbs import writes
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.status import Status
from costgym.simulators.tasks import fact_in, normalise

MOST_NEEDS, MOST_TASKS = 6, 2_000
SHORTEST, LONGEST = 3, 120  # characters of a fact
LONGEST_RESULT = 20_000  # characters of a recorded answer that are kept
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def forge_traces(
    log: Path,
    sources: Sequence[str],
    name: str,
    cache: Path,
    anonymise: bool = True,
    fields: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
) -> tuple[Calibration, dict[str, Any]]:
    """Make a world of a log with results, and of documents that describe its tools.

    Args:
        log: The log, as for `calibrate`.
        sources: Documents with descriptions and parameters of the tools; tools that none describes have those that were seen.
        name: The scenario's name.
        cache: Folder of downloaded packages.
        anonymise: Replace personal details (see `Anonymiser`).
        fields, where: As for `read_log`.

    Returns:
        The calibration whose document has the tasks, and a report: tasks, episodes left out by reason, replaced details.

    Raises:
        ConfigError: No episode of the log can become a task.
    """
    read = read_log(log, fields, where)
    hidden = Anonymiser() if anonymise else None
    if hidden is not None:
        read = _hidden(read, hidden)
    calibration = calibrate(log, name, least_calls=1, fields=fields, where=where)
    names = callable_names(sorted({call.tool for call in read.calls}))
    known = {operation.name: operation for operation in operations_of(sources, cache)}
    left_out: Counter[str] = Counter()
    tasks = list(_tasks(read, names, left_out))[:MOST_TASKS]
    if not tasks:
        reasons = "; ".join(f"{count} episodes: {reason}" for reason, count in left_out.most_common(3))
        raise ConfigError("--traces", f"no episode of {log} can become a task; {reasons or 'none has what its user asked'}")
    document = {**calibration.document, "source": {**calibration.document["source"], "tasks": tasks}}
    document["source"]["tools"] = [
        tool_of(tool, [call for call in read.calls if names[call.tool] == tool["name"]], known.get(tool["name"]))
        for tool in calibration.document["source"]["tools"]
    ]
    replaced = {} if hidden is None else hidden.counts
    notes = [
        f"{len(tasks)} tasks have the words of the log's users and recorded results",
        f"replaced: {counted(replaced)}; a pattern or a list of names may miss some"
        if anonymise
        else "personal details are not replaced",
    ]
    document["description"] = f"{calibration.document['description']} {notes[0]}; {notes[1]}."
    scenario = parse_scenario(document, str(log))
    scenario.build()
    report = {**calibration.report, "own_tasks": True, "notes": notes, "replaced": None if hidden is None else replaced}
    made = replace(calibration, scenario=scenario, document=document, report=report)
    return made, {"tasks": len(tasks), "left_out": dict(left_out), "replaced": replaced, "records": dict(read.records)}


def _hidden(log: Log, hidden: Anonymiser) -> Log:
    values = [(_plain(call.arguments), _plain(call.result)) for call in log.calls]
    hidden.learn(value for pair in values for value in pair)
    calls = [
        replace(call, arguments=hidden.value(arguments), result=hidden.value(result))
        for call, (arguments, result) in zip(log.calls, values, strict=True)
    ]
    queries = {episode: hidden.text(text) for episode, text in log.queries.items()}
    return replace(log, calls=calls, queries=queries, answers={e: hidden.text(text) for e, text in log.answers.items()})


def _plain(value: Any) -> Any:
    """A value that a log holds as JSON text, parsed."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def operations_of(sources: Sequence[str], cache: Path) -> Iterator[Operation]:
    """The operations that documents describe."""
    for source in sources:
        for document in documents(source, cache):
            api = document.read()
            if not isinstance(api, Skipped):
                yield from api.operations


def tool_of(tool: Mapping[str, Any], calls: Sequence[LoggedCall], known: Operation | None) -> dict[str, Any]:
    """A tool of a world with its description, its parameters, and whether it writes."""
    made = {**tool, "input_schema": _seen_schema(calls)}
    if known is not None:
        properties = {
            p.name: {**p.schema, **({"description": p.description} if p.description else {})} for p in known.parameters
        }
        required = [p.name for p in known.parameters if p.required]
        made |= {
            "description": known.description or known.summary,
            "input_schema": {"properties": properties, "required": required},
        }
    if writes(known or Operation(tool["name"], False, reads=None), "functions"):
        made["writes"] = True
    return made


def _seen_schema(calls: Sequence[LoggedCall]) -> dict[str, Any]:
    """The schema of the arguments that a log's calls have."""
    seen = [arguments for call in calls if isinstance(arguments := _plain(call.arguments), dict)]
    properties: dict[str, Any] = {}
    for arguments in seen:
        for name, value in arguments.items():
            properties.setdefault(
                str(name), {"type": _TYPES.get(type(value), "object" if isinstance(value, dict) else "array")}
            )
    always = [name for name in properties if all(name in arguments for arguments in seen)]
    return {"properties": properties, "required": always}


def _tasks(log: Log, names: Mapping[str, str], left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    """A task for each episode whose query, calls and results say what is wanted."""
    episodes: dict[str, list[LoggedCall]] = defaultdict(list)
    for call in log.calls:
        if call.episode is not None:
            episodes[call.episode].append(call)
    seen: set[str] = set()
    for episode, calls in episodes.items():
        query = " ".join(log.queries.get(episode, "").split())[:2_000]
        if not query:
            left_out["nothing says what its user asked"] += 1
        elif query in seen:
            left_out["its query came before"] += 1
        elif not (needs := needs_of(query, normalise(log.answers.get(episode, "")), calls, names)):
            left_out["no result holds a fact that can be looked for"] += 1
        else:
            seen.add(query)
            yield {"query": query, "needs": needs}


def needs_of(query: str, answered: str, calls: Sequence[LoggedCall], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The needs of an episode: its calls that worked, each with a fact of its result."""
    chosen: list[tuple[LoggedCall, dict[str, Any], list[str]]] = []
    for call in calls:
        arguments, result = _plain(call.arguments), _plain(call.result)
        leaves = [leaf for leaf in dict.fromkeys(_leaves(result)) if SHORTEST <= len(leaf) <= LONGEST]
        again = any(c.tool == call.tool and _plain(c.arguments) == arguments for c, *_ in chosen)
        if call.status is Status.OK and leaves and not again and len(chosen) < MOST_NEEDS:
            chosen.append((call, arguments if isinstance(arguments, dict) else {}, leaves))
    needs: list[dict[str, Any]] = []
    for index, (call, arguments, leaves) in enumerate(chosen):
        later = {
            normalise(value)
            for _, others, _ in chosen[index + 1 :]
            for value in others.values()
            if not isinstance(value, dict | list)
        }
        stated = {name: value for name, value in arguments.items() if isinstance(value, str | int | float | bool)}
        wanted: dict[str, Any] = {}
        for name, value in stated.items():
            source = next((n for n, need in enumerate(needs) if normalise(need["fact"]) == normalise(value)), None)
            if source is not None:
                wanted[name] = f"{{{source}}}"
            elif normalise(value) in normalise(query) and not isinstance(value, bool):
                wanted[name] = value
        link = next((leaf for leaf in leaves if normalise(leaf) in later and normalise(leaf) not in normalise(query)), None)
        fact = link or next((leaf for leaf in leaves if answered and fact_in(leaf, answered)), None)
        new = [leaf for leaf in leaves if normalise(leaf) not in normalise(query)]
        fact = fact or (new or leaves)[0]
        is_asked = link is None and (not answered or fact_in(fact, answered))
        text = call.result if isinstance(call.result, str) else json.dumps(call.result, ensure_ascii=False)
        need = {
            "capability": names[call.tool],
            "arguments": wanted,
            "fact": fact,
            "result": text[:LONGEST_RESULT],
            "asked": is_asked,
        }
        if fact_in(fact, normalise(need["result"])):
            needs.append(need)
    if needs and not any(need["asked"] for need in needs):
        needs[-1]["asked"] = True
    return needs


def _leaves(value: Any, depth: int = 0) -> Iterator[str]:
    """The plain values that a result holds, as texts."""
    if isinstance(value, dict) and depth < 12:
        for item in value.values():
            yield from _leaves(item, depth + 1)
    elif isinstance(value, list) and depth < 12:
        for item in value[:200]:
            yield from _leaves(item, depth + 1)
    elif isinstance(value, str) and value.strip():
        yield " ".join(value.split())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
