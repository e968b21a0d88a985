"""Documents in the shapes that people brought: what is read of them, and that their tasks can be solved."""

from pathlib import Path
from typing import Any

import pytest

from costgym.simulators.forge.compose import api_document
from costgym.simulators.forge.graph import Graph, graph_of
from costgym.simulators.forge.readers.reading import read_document
from tests.helpers.shared_data import shared
from tests.helpers.specifications import content


def read(name: str) -> Graph:
    path = shared(f"data/cases/{name}")
    return graph_of(read_document(path.name, path.read_bytes()))


def test_fields_of_every_level_of_allof_are_there_and_a_record_shows_whose_it_is() -> None:
    (keeper,) = read("min-nested-allof.yaml").capabilities
    assert {fact.words for fact in keeper.facts} == {"city", "name", "email", "nickname"}
    (made,) = api_document(read("min-nested-allof.yaml"))["capabilities"]
    assert made["facts"][-1] == {"path": ["keeperId"], "words": "ID", "entity": "keeper", "shown": True}


def test_a_dataset_is_called_by_the_name_that_its_call_takes() -> None:
    graph = read("min-named-path.yaml")
    assert (graph.entities["dataset"].key, graph.entities["dataset"].known_as) == ("name", "name")


def lists(tmp: Path, document: Any) -> list[str]:
    return [operation.name for operation in read_document("tools.json", content(document)).operations]


FUNCTION = {"name": "get_order", "description": "Get an order.", "parameters": {"type": "object", "properties": {}}}
TOOLBENCH = {
    "tool_name": "Shop",
    "api_list": [
        {
            "name": "Get order", "description": "Get an order.", "method": "GET", "optional_parameters": [],
            "required_parameters": [{"name": "order_id", "type": "STRING", "description": "", "default": "A-1"}],
            "template_response": {"id": "str", "total": "float", "city": "str"},
        }
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ([FUNCTION], ["get_order"]), ({"tools": [FUNCTION]}, ["get_order"]), ({"result": {"tools": [FUNCTION]}}, ["get_order"]),
        ({"retail": {"tools": [FUNCTION]}, "travel": [FUNCTION | {"name": "get_trip"}]}, ["get_order", "get_trip"]),
        ([{"type": "function", "function": FUNCTION}], ["get_order"]),
        (TOOLBENCH, ["Get_order"]), ([TOOLBENCH, TOOLBENCH], ["Get_order", "Get_order"]),
    ],
    ids=["list", "tools", "result", "domains", "wrapped", "toolbench", "toolbenches"],
)  # fmt: skip
def test_a_list_of_tools_is_found_where_it_is(document: Any, names: list[str], tmp_path: Path) -> None:
    assert lists(tmp_path, document) == names


def test_what_toolbench_and_bfcl_say_of_a_response_is_read() -> None:
    (operation,) = read_document("tools.json", content(TOOLBENCH)).operations
    assert [(field.name, field.schema["type"]) for field in operation.fields] == [
        ("id", "string"), ("total", "number"), ("city", "string"),
    ]  # fmt: skip
    assert operation.reads is True and operation.parameters[0].schema["example"] == "A-1"


@pytest.mark.parametrize(
    ("stated", "schema"),
    [
        ("The advisory, such as GHSA-xxxx-xxxx-xxxx.", {"example": "GHSA-7777-7777-7777"}),
        ("Ticker of the stock, e.g. `AAPL`", {"example": "AAPL"}),
        ('The class. [Enum]: ["economy", "business"]', {"enum": ["economy", "business"]}),
        ("Name of the user", {}),
    ],
)
def test_examples_and_choices_in_a_description_are_read(stated: str, schema: dict[str, Any]) -> None:
    parameters = {"type": "object", "properties": {"value": {"type": "string", "description": stated}}}
    (operation,) = read_document("t.json", content([FUNCTION | {"parameters": parameters}])).operations
    assert {key: value for key, value in operation.parameters[0].schema.items() if key != "type"} == schema
