"""Untrusted documents: each gives a sentence or a safe world, in bounded time and memory."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costgym.cli.setting_options import with_options
from costgym.cli.tools.forge import forge
from costgym.experiments.pages.world_pages import world_page
from costgym.simulators.errors import CostGymError
from costgym.simulators.forge.compose import api_document, world_document
from costgym.simulators.forge.graph import graph_of
from costgym.simulators.forge.readers.documents import inside, parse
from costgym.simulators.forge.readers.reading import read_document
from costgym.simulators.scenario import parse_scenario
from tests.helpers.specifications import CLINIC, INJECTIONS, content

SECONDS = 60.0
"""Longest time for one document on a machine that ten others use."""
PLACES = ("operationId", "summary", "description", "title", "parameter", "field", "enum", "path", "category", "example")


def injected(pointer: str, text: str) -> dict[str, Any]:
    """The clinic with a hostile text in one place."""
    document = json.loads(json.dumps(CLINIC))
    get = document["paths"]["/owners/{ownerId}"]["get"]
    match pointer:
        case "operationId" | "summary" | "description":
            get[pointer] = text
        case "title":
            document["info"]["title"] = document["info"]["x-providerName"] = text
        case "parameter":
            get["parameters"].append({"name": text, "in": "query", "required": True, "schema": {"type": "string"}})
        case "field":
            document["components"]["schemas"]["Owner"]["properties"][text] = {"type": "string"}
        case "enum":
            document["components"]["schemas"]["Pet"]["properties"]["species"]["enum"] = [text, text + "b", text + "c"]
        case "path":
            document["paths"]["/" + text + "/{id}"] = get
        case "category":
            document["info"]["x-apisguru-categories"] = [text]
        case "example":
            get["parameters"][0]["schema"] = {"type": "string", "example": text, "default": text, "pattern": text[:50]}
    return document


def bombs() -> Iterator[tuple[str, str, bytes]]:
    """Documents that would take time or memory: their name, the file's, and the bytes."""
    yield "deep lists", "x.json", b"[" * 200_000
    yield "deep mappings", "x.json", b'{"a":' * 100_000
    yield "deep yaml", "x.yaml", b"[" * 50_000
    yield "deep yaml in a key", "x.yaml", b"a: " + b"[" * 200_000
    yield "deep yaml that is closed", "x.yaml", b"a: " + b"[" * 150 + b"]" * 150
    yield "deep lists of dashes", "x.yaml", b"- " * 20_000 + b"x"
    merges = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12))
    yield "billion merges", "x.yaml", merges.encode()
    yield "deep but closed", "x.json", b"[" * 500 + b"]" * 500
    laughs = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    yield "billion laughs", "x.yaml", laughs.encode()
    yield "an alias of itself", "x.yaml", b"a: &a\n  b: *a\n"
    yield "merge keys", "x.yaml", ("a: &a {x: 1}\n" + "b:\n  <<: [" + ", ".join(["*a"] * 5_000) + "]\n").encode()
    yield "python objects", "x.yaml", b"a: !!python/object/apply:os.system ['echo hacked']\n"
    yield "a huge number", "x.json", b'{"openapi": "3.0.0", "paths": {}, "x": ' + b"9" * 100_000 + b"}"
    yield "not a number", "x.json", b'{"openapi": NaN, "paths": {"/a": {"get": {"responses": Infinity}}}}'
    yield "null bytes", "x.json", b'{"a": "\x00"}\x00'
    yield "latin-1", "x.json", b'{"a": "\xe9"}'
    yield "nothing", "x.json", b""
    yield "spaces", "x.yaml", b"   \n\n"
    yield "a text", "x.yaml", b"hello"
    yield "a number", "x.json", b"7"
    yield "numbers", "x.json", b"[1, 2, 3]"
    yield "python with nesting", "x.py", b"x = " + b"(" * 5_000 + b")" * 5_000
    yield "python with annotations", "x.py", ("def f(a: " + "list[" * 90 + "int" + "]" * 90 + ") -> int: ...").encode()
    yield "python that exits", "x.py", b"import os\nos._exit(1)\ndef f(a: str) -> str: ...\n"
    yield "python that asks much", "x.py", ("def f(" + ", ".join(f"a{n}: int" for n in range(200)) + ") -> int: ...").encode()
    circle = {"a": {"$ref": "#/components/schemas/b"}, "b": {"$ref": "#/components/schemas/a"}}
    yield (
        "a circle of references",
        "x.json",
        content({**CLINIC, "components": {"schemas": {"Owner": circle["a"], **circle, "Pet": circle["b"]}}}),
    )
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}}}
    schema["properties"]["next"] = {"$ref": "#/components/schemas/Owner"}  # type: ignore[index]
    yield "a schema of itself", "x.json", content({**CLINIC, "components": {"schemas": {"Owner": schema, "Pet": schema}}})
    wide = {"type": "object", "properties": {f"f{n}": {"$ref": "#/components/schemas/Owner"} for n in range(50)}}
    yield "a wide schema of itself", "x.json", content({**CLINIC, "components": {"schemas": {"Owner": wide, "Pet": wide}}})
    both = {"allOf": [{"$ref": "#/components/schemas/Owner"}] * 20}
    yield "allOf of itself", "x.json", content({**CLINIC, "components": {"schemas": {"Owner": both, "Pet": both}}})
    yield (
        "a million fields",
        "x.json",
        content(
            {
                **CLINIC,
                "components": {
                    "schemas": {"Owner": {"properties": {f"a{n}": {"type": "string"} for n in range(200_000)}}, "Pet": schema}
                },
            }
        ),
    )
    get = CLINIC["paths"]["/owners"]["get"]
    long = {**get, "responses": {"2" + "9" * 5_000: {"description": "no status"}}}
    yield "a status of 5,001 digits", "x.json", content({**CLINIC, "paths": {"/owners": {"get": long}}})
    yield "many operations", "x.json", content({**CLINIC, "paths": {f"/things{n}": {"get": get} for n in range(6_000)}})
    many = {
        **get,
        "parameters": [{"name": f"p{n}", "in": "query", "required": True, "schema": {"type": "string"}} for n in range(5_000)],
    }
    yield "many parameters", "x.json", content({**CLINIC, "paths": {"/owners": {"get": many}}})
    yield "many words in a name", "x.json", content({**CLINIC, "paths": {"/" + "ab" * 50_000: {"get": get}}})
    slow = {"type": "string", "pattern": "^(a+)+$", "example": "a" * 40 + "!"}
    with_slow = {
        **CLINIC["paths"]["/visits/{visitId}"]["get"],
        "parameters": [{"name": "visitId", "in": "path", "required": True, "schema": slow}],
    }
    yield "a pattern that takes for ever", "x.json", content({**CLINIC, "paths": {"/visits/{visitId}": {"get": with_slow}}})
    for kind in (None, 1, "x", [], [None], {"a": None}, True, 1e308):
        for key in ("info", "paths", "servers", "components"):
            yield f"{key} is {kind!r}", "x.json", content({**CLINIC, key: kind})
        broken = {**get, "parameters": kind, "responses": kind}
        yield (
            f"an operation of {kind!r}",
            "x.json",
            content({**CLINIC, "paths": {"/a": {"get": broken, "put": kind, "parameters": kind}}}),
        )
        yield (
            f"a schema of {kind!r}",
            "x.json",
            content({**CLINIC, "components": {"schemas": {"Owner": kind, "Pet": {"properties": kind, "type": kind}}}}),
        )
        yield (
            f"tools of {kind!r}",
            "x.json",
            content({"tools": [kind, {"name": "get_a", "inputSchema": {"type": kind, "properties": kind}}]}),
        )
        yield (
            f"a service of {kind!r}",
            "x.json",
            content({"metadata": {}, "operations": {"GetA": kind, "ListB": {"output": kind}}, "shapes": {"A": kind}}),
        )
        yield (
            f"resources of {kind!r}",
            "x.json",
            content({"kind": "discovery#restDescription", "resources": {"a": kind}, "schemas": kind, "methods": {"m": kind}}),
        )


DOCUMENTS = list(bombs()) + [
    (f"{name} in {pointer}", "x.json", content(injected(pointer, text)))
    for name, text in INJECTIONS.items()
    for pointer in PLACES
]


def test_there_are_three_hundred_hostile_documents() -> None:
    assert len(DOCUMENTS) >= 300 and len({name for name, _, _ in DOCUMENTS}) == len(DOCUMENTS)


@pytest.mark.parametrize(
    ("file", "document"),
    # of the injections every third, so that each text and each place is met
    [
        pytest.param(*document, id=name, marks=pytest.mark.slow if " in " in name and number % 3 else ())
        for number, (name, *document) in enumerate(DOCUMENTS)
    ],
)
def test_a_hostile_document_gives_a_sentence_and_no_file_or_a_safe_world(tmp_path: Path, file: str, document: bytes) -> None:
    begin = time.monotonic()
    try:
        graph = graph_of(read_document(file, document))
        made = world_document([api_document(graph)], "hostile", 0)
    except CostGymError:
        made = None
    if made is None:
        (tmp_path / file).write_bytes(document)
        with pytest.raises(CostGymError) as raised:
            with_options(forge)([str(tmp_path / file)], out=tmp_path / "world.yaml", page=tmp_path / "page.html", quiet=True)
        assert 10 < len(str(raised.value)) < 1_000 and "\n" not in str(raised.value)
        assert [path.name for path in tmp_path.iterdir()] == [file]
    else:
        safe(made)
    assert time.monotonic() - begin < SECONDS


def safe(made: dict[str, Any]) -> None:
    """Check plain names, one line of text, escaped pages, and a scenario that is read back."""
    scenario = parse_scenario(json.loads(json.dumps(made)))
    world = scenario.build()
    for tool in world.catalog:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name)
        for text in (tool.description, tool.provider, tool.category, tool.title):
            assert len(text) <= 1_000 and all(c.isprintable() for c in text)
    for number in world.tasks.numbers("test")[:3]:
        task = world.tasks[number]
        for text in ("<", "{", "Ignore", "\n", "\\", "passwd", "DROP"):
            assert text not in task.query
    page = world_page(made)
    assert "<script" not in page and "<img" not in page and "onload=alert" not in re.sub(r"&[a-z#0-9]+;[^<]*", "", page)
    assert page.count("<svg") <= 1 and page.count("<title>") == 1 + page.count('"><title>')


@pytest.mark.parametrize(
    ("base", "other", "linked"),
    [
        ("a/b.json", "c.json", "a/c.json"),
        ("a/b.json", "../c.json", "c.json"),
        ("a/b.json", "../../c.json", None),
        ("b.json", "/c.json", None),
        ("b.json", "http://x/c.json", None),
        ("b.json", "..\\c.json", None),
        ("b.json", "./x/./y.json", "x/y.json"),
    ],
)
def test_a_name_leads_nowhere_but_into_its_source(base: str, other: str, linked: str | None) -> None:
    assert inside(base, other) == linked


def test_a_document_over_the_limit_is_not_parsed() -> None:
    with pytest.raises(CostGymError, match="expected at most 64 MiB, got 65 MiB"):
        parse(b" " * (65 * 2**20), "x.json")
