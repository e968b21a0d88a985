"""A world of one's own questions: each has the calls that answer it, and documents describe the tools.

A call has the result that the file gives, or one of the form that its document describes. What a later call takes, and the
question does not say, is what an earlier call brings.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from costgym.experiments.fit.forge.traces import needs_of, tool_of
from costgym.experiments.play.call_logs.log import LoggedCall, callable_names
from costgym.experiments.play.call_logs.records import Record, first, read_records
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.files import read_yaml
from costgym.simulators.forge.compose import OWN_PROFILE
from costgym.simulators.forge.readers.operations import RESULT, Operation
from costgym.simulators.forge.values import draw, put_value, spec_of
from costgym.simulators.forge.words import split
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.status import Status
from costgym.simulators.tasks import normalise

_QUERY = ("query", "question", "user_query", "input", "prompt", "task", "user_scenario.instructions.task_instructions")
_CALLS = (
    "calls",
    "expected_calls",
    "expected_tools",
    "tool_calls",
    "reference_calls",
    "evaluation_criteria.actions",
    "actions",
)
_NAME, _ARGUMENTS = (
    ("tool", "function.name", "name", "tool_name"),
    ("arguments", "function.arguments", "args", "input_parameters"),
)
_RESULT, _ANSWER = ("result", "output", "response"), ("answer", "expected_output", "expected_answer")
"""Names that a question, its calls and their parts have in the files of usual programs."""
MOST_TOOLS, OFFERED = 64, 16  # of a world, and on offer in a task
_REFERS = ("id", "uuid", "key", "number", "code", "token", "name", "slug")
"""Last words of arguments that an answer gives though no document says so; others are a matter of judgement."""
MOST_FIELDS = 12  # of a result that no file gives


class Question(NamedTuple):
    """A question of the file with the calls that it takes."""

    location: str
    query: str
    answer: str
    calls: list[tuple[str, dict[str, Any], Any]]  # tool, arguments, and the result; None where it is not given


def forge_queries(
    queries: Path,
    operations: Sequence[Operation],
    name: str,
    profiles: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a world of questions and of the operations that answer them.

    Args:
        queries: File with the questions: YAML, JSON, or JSON one a line.
        operations: The tools, as documents describe them.
        name: The scenario's name.
        profiles, settings: What was measured, as for `world_document`.

    Returns:
        The scenario as plain data, and a report: tasks, tools, calls whose results were made up, arguments that nothing states.

    Raises:
        DataError: A question has no calls, or has another form; names the line.
        UnknownName: A call's tool is in no document.
    """
    names = callable_names([operation.name for operation in operations])
    by_key = {_key(operation.name): operation for operation in operations}
    questions = [_resolved(question, by_key, operations) for question in _questions(queries)]
    chosen = _chosen(questions, operations)
    tools = _tools(chosen, names, profiles)
    writing = {tool["name"] for tool in tools if tool.get("writes")}
    calls = [call for question in questions for call in question.calls]
    made_up = sum(result is None for *_, result in calls)
    tasks: list[dict[str, Any]] = []
    unstated: list[str] = []
    for question in questions:
        logged = list(_answered(question, by_key))
        needs = needs_of(question.query, normalise(question.answer), logged, names)
        if len(needs) < len(logged):
            problem = f"takes {len(logged)} calls, of which {len(needs)} differ and bring something; at most six are read"
            raise DataError(queries, problem, question.location)
        for call, need in zip(logged, needs, strict=True):
            missing = call.arguments.keys() - need["arguments"].keys()
            unstated += [f"{question.location}: {argument} of {call.tool}" for argument in sorted(missing)]
        for need in needs if not question.answer else ():
            need["asked"] &= need["capability"] not in writing  # the effect is what is wanted
        tasks.append({"query": question.query, "needs": needs, "tools": _offered(question, chosen, names)})
    document = {
        "name": name,
        "description": f"{len(tasks)} questions of one's own, and {len(tools)} tools.",
        **(settings or {"budget": {"calls": 12.0}}),
        "source": {"kind": "own", "tools": tools, "tasks": tasks},
    }
    parse_scenario(document, str(queries)).build()
    return document, {
        "tasks": len(tasks),
        "tools": len(tools),
        "made_up": made_up,
        "calls": len(calls),
        "unstated": sorted(unstated),
    }


def _tools(
    operations: Sequence[Operation], names: Mapping[str, str], profiles: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    known = {str(entry["name"]): dict(entry["profile"]) for entry in profiles}
    tools = []
    for operation in operations:
        name = names[operation.name]
        tool = {"name": name, "capability": name, "profile": known.get(operation.name, OWN_PROFILE)}
        tools.append(tool_of(tool, (), operation))
    return tools


def _questions(path: Path) -> Iterator[Question]:
    """The questions of a file."""
    if path.suffix.lower() in (".yaml", ".yml"):
        listed = read_yaml(path)
        listed = listed.get("queries", listed) if isinstance(listed, dict) else listed
        records = [Record(f"question {n}", part) for n, part in enumerate(listed if isinstance(listed, list) else [listed], 1)]
    else:
        records = read_records(path)
    if not records:
        raise DataError(path, "is empty; expected questions, each with `query` and `calls`")
    for record in records:
        query, calls = first(record.value, _QUERY), first(record.value, _CALLS)
        if record.problem or not isinstance(query, str) or not query.strip() or not isinstance(calls, list) or not calls:
            problem = record.problem or "expected a `query` and a list of `calls`, each with `tool` and `arguments`"
            raise DataError(path, problem, record.location)
        parts = []
        for call in calls:
            tool, arguments = first(call, _NAME), first(call, _ARGUMENTS)
            arguments = {} if arguments is None else arguments
            if not isinstance(tool, str) or not isinstance(arguments, dict):
                raise DataError(path, f"expected a call with `tool` and `arguments`, got {call!r:.80}", record.location)
            parts.append((tool, arguments, first(call, _RESULT)))
        answer = first(record.value, _ANSWER)
        yield Question(record.location, " ".join(query.split())[:2_000], answer if isinstance(answer, str) else "", parts)


def _key(name: str) -> str:
    return "_".join(split(name))


def _resolved(question: Question, by_key: Mapping[str, Operation], operations: Sequence[Operation]) -> Question:
    """A question whose calls have the names of the documents."""
    exact = {operation.name for operation in operations}
    calls = []
    for tool, arguments, result in question.calls:
        name_of_tool = tool if tool in exact else by_key[_key(tool)].name if _key(tool) in by_key else ""
        if not name_of_tool:
            raise UnknownName(f"tool of {question.location}", tool, sorted(exact))
        calls.append((name_of_tool, arguments, result))
    return question._replace(calls=calls)


def _chosen(questions: Sequence[Question], operations: Sequence[Operation]) -> list[Operation]:
    """The operations that questions need, and others up to a limit, in the order of their documents."""
    needed = {tool for question in questions for tool, *_ in question.calls}
    if len(needed) > MOST_TOOLS:
        raise ConfigError("--queries", f"expected questions that need at most {MOST_TOOLS} tools, got {len(needed)}")
    distinct = {operation.name: operation for operation in operations}
    others = sorted(distinct.keys() - needed, key=lambda name: stable_integer(0, "other tool", name))
    chosen_names = needed | set(others[: MOST_TOOLS - len(needed)])
    return [operation for name, operation in distinct.items() if name in chosen_names]


def _offered(question: Question, chosen: Sequence[Operation], names: Mapping[str, str]) -> list[str]:
    """The tools on offer: those that the question needs, among others."""
    needed = {tool for tool, *_ in question.calls}

    def luck(name: str) -> int:
        return stable_integer(0, "offered", question.query, name)

    others = sorted((operation.name for operation in chosen if operation.name not in needed), key=luck)
    return [names[name] for name in sorted([*needed, *others[: max(0, OFFERED - len(needed))]], key=luck)]


def _answered(question: Question, by_key: Mapping[str, Operation]) -> Iterator[LoggedCall]:
    """The calls of a question with results."""
    query_text = normalise(question.query)
    for index, (tool, arguments, result) in enumerate(question.calls):
        if result is None:
            later = {
                name: value
                for _, others, _ in question.calls[index + 1 : index + 2]
                for name, value in others.items()
                if isinstance(value, str | int | float) and not isinstance(value, bool) and normalise(value) not in query_text
            }
            result = _made_up(question.query, index, by_key[_key(tool)], arguments, later)
        yield LoggedCall(tool, float(index), None, Status.OK, episode=question.location, arguments=arguments, result=result)


def _made_up(
    query: str, index: int, operation: Operation, arguments: Mapping[str, Any], later: Mapping[str, Any]
) -> dict[str, Any]:
    """A result of the form that the document describes; it repeats the call's arguments, and has what the next call takes."""
    root: dict[str, Any] = {"": {}}
    known = {_key(name): value for name, value in {**arguments, **later}.items()}
    left = {_key(name): name for name in later}
    for field in operation.fields[:MOST_FIELDS]:
        spec = spec_of(field.name, field.schema)
        key = _key(field.name)
        if key == "id" and len(left) == 1 and next(iter(left)).endswith("_id"):
            key = next(iter(left))  # the id of a payment is what the next call's payment_id is
        value = known[key] if key in known else draw(spec, 0, query, index, *field.path) if spec is not None else None
        if value is not None and field.path != RESULT:
            put_value(root, ("", *field.path), 0, value)
            left.pop(key, None)
    made = root[""] if isinstance(root[""], dict) else {"items": root[""]}
    made |= {name: later[name] for key, name in left.items() if key.rsplit("_", 1)[-1] in _REFERS}
    return made or {"id": draw({"form": "code"}, 0, query, index, operation.name), "status": "done"}
