"""Documents of every format are read as the same operations."""

import gzip
import json

import pytest
import yaml

from costgym.simulators.errors import DataError
from costgym.simulators.forge.graph import graph_of
from costgym.simulators.forge.readers.functions import acts
from costgym.simulators.forge.readers.operations import Api
from costgym.simulators.forge.readers.reading import read_document
from costgym.simulators.forge.verbs import writes
from tests.helpers.specifications import BOTOCORE, CLINIC, DISCOVERY, FUNCTIONS, MCP, PYTHON, SWAGGER, content


def reads(api: Api) -> list[str]:
    return [operation.name for operation in api.operations if not operation.writes]


def test_openapi_3_gives_parameters_fields_and_declared_errors() -> None:
    api = read_document("clinic.json", content(CLINIC))
    assert (api.kind, api.title, api.provider) == ("openapi", "Pet clinic", "clinic.example")
    assert reads(api) == ["listOwners", "getOwner", "listPets", "getPet", "getVisit"]
    owner = next(operation for operation in api.operations if operation.name == "getOwner")
    assert [(p.name, p.schema["type"], p.required, p.location) for p in owner.parameters] == [
        ("ownerId", "integer", True, "path")
    ]
    assert [field.path for field in owner.fields] == [("id",), ("name",), ("email",), ("city",)]
    assert owner.statuses == (404,)
    assert api.operations[0].fields[0].path == ("[]", "id")


def test_yaml_and_json_of_one_document_give_the_same_operations() -> None:
    written = yaml.safe_dump(CLINIC, sort_keys=False).encode()
    assert read_document("clinic.yaml", written).operations == read_document("clinic.json", content(CLINIC)).operations


def test_dates_in_yaml_stay_text_as_in_json() -> None:
    api = read_document("x.yaml", b"swagger: '2.0'\ninfo: {title: 2026-11-25}\npaths: {}\n")
    assert api.title == "2026-11-25"


def test_openapi_2_is_read_like_openapi_3() -> None:
    api = read_document("parcels.json", content(SWAGGER))
    assert api.provider == "parcels.example"
    assert [field.name for field in api.operations[0].fields] == ["status", "weight", "deliveredAt"]


def test_references_lead_to_other_files_of_the_source() -> None:
    main = {
        "openapi": "3.0.0",
        "paths": {"/a": {"get": {"operationId": "getA", "responses": {"200": {"$ref": "parts/r.yaml#/ok"}}}}},
    }
    files = {
        "api/parts/r.yaml": b"ok: {content: {application/json: {schema: {$ref: '../s.json'}}}}",
        "api/s.json": b'{"type": "object", "properties": {"price": {"type": "number"}}}',
    }
    api = read_document("api/main.json", content(main), files.get)
    assert [field.path for field in api.operations[0].fields] == [("price",)]


@pytest.mark.parametrize(
    "reference", ["../../etc/passwd", "/etc/passwd", "http://evil.example/x.json", "file:///etc/passwd", "c:\\x"]
)
def test_a_reference_out_of_the_source_is_named_and_never_fetched(reference: str) -> None:
    fetched: list[str] = []
    document = {"openapi": "3.0.0", "paths": {"/a": {"get": {"parameters": [{"$ref": reference}], "responses": {}}}}}
    api = read_document("main.json", content(document), lambda name: fetched.append(name))  # type: ignore[func-returns-value]
    assert api.operations == () and fetched == []
    assert "leads out of the source" in api.skipped[0].reason and api.skipped[0].location == "main.json, paths./a.get"


def test_google_discovery_documents_give_reads_and_writes() -> None:
    api = read_document("boats.json", content(DISCOVERY))
    assert api.kind == "discovery" and reads(api) == ["boats.boats.get"]
    assert api.operations[0].summary == "Gets a boat"
    assert [field.name for field in api.operations[0].fields] == ["name", "launchTime"]


def test_botocore_models_give_reads_by_their_names_and_errors_by_their_shapes() -> None:
    api = read_document("kennels/service-2.json.gz", content(BOTOCORE))
    assert api.kind == "botocore" and reads(api) == ["ListKennels", "DescribeKennel"]
    assert api.operations[0].statuses == (429,)
    assert api.operations[0].fields[0].path == ("Kennels", "[]", "KennelId")


def test_mcp_tools_and_function_schemas_are_read() -> None:
    api = read_document("library.json", content(MCP))
    assert api.kind == "mcp" and reads(api) == ["get_book"]
    answer = {"jsonrpc": "2.0", "id": 1, "result": MCP}
    assert read_document("answer.json", content(answer)).operations == api.operations
    functions = read_document("functions.json", content(FUNCTIONS))
    assert functions.kind == "functions" and reads(functions) == ["get_weather", "get_flight"]


def test_the_prefix_that_all_tools_of_a_server_share_hides_no_write_and_no_noun() -> None:
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"channel_id": text}, "required": ["channel_id"]}
    names = ("slack_list_messages", "slack_post_message", "slack_get_channel_history", "slack_book_room")
    api = read_document("slack.json", content({"tools": [{"name": name, "inputSchema": schema} for name in names]}))
    assert [writes(operation, "mcp") for operation in api.operations] == [False, True, False, True]
    assert "channel history" in [capability.noun for capability in graph_of(api).capabilities]


def test_the_first_word_of_a_tool_says_whether_it_writes_and_no_part_of_it() -> None:
    assert [acts(name) for name in ("move_file", "movement_report", "orders_list", "order_pizza", "openings")] == [
        True, False, False, True, False,
    ]  # fmt: skip


def test_a_tool_whose_text_has_no_form_is_asked_for_with_a_short_name() -> None:
    schema = {"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]}
    tool = {"name": "get_branch", "inputSchema": schema}
    (capability,) = graph_of(read_document("git.json", content({"tools": [tool]}))).capabilities
    assert [(argument.words, argument.spec) for argument in capability.arguments] == [("repository", {"form": "slug"})]


def test_python_functions_are_parsed_and_never_run() -> None:
    api = read_document("tools.py", (PYTHON + "\nraise SystemExit('was run')\n").encode())
    assert reads(api) == ["get_exchange_rate"] and len(api.operations) == 2
    rate = api.operations[0]
    assert [(p.name, p.schema, p.required) for p in rate.parameters] == [
        ("base_currency", {"type": "string"}, True),
        ("day", {"type": "string", "format": "date"}, True),
        ("source", {"type": "string", "enum": ["ecb", "fed"]}, False),
    ]
    assert rate.parameters[0].description == "The currency."
    assert api.skipped[0].reason == "expected a type hint for thing"


def test_an_unknown_document_says_what_was_expected_and_what_came() -> None:
    with pytest.raises(DataError, match=r"expected OpenAPI 2 or 3.*got a document with the keys a, b"):
        read_document("x.json", b'{"a": 1, "b": 2}')


def test_a_broken_document_is_named_with_its_line() -> None:
    with pytest.raises(DataError, match=r"x\.json, line 2: is not valid JSON"):
        read_document("x.json", b'{"openapi": "3.0.0",\n "paths": {]}')
    with pytest.raises(DataError, match=r"x\.yaml, line 3: is not valid YAML"):
        read_document("x.yaml", b"a: 1\nb: [1, 2\nc: 3\n")
    with pytest.raises(DataError, match=r"x\.py, line 1: is not valid Python"):
        read_document("x.py", b"def (:")


def test_gzip_is_not_guessed() -> None:
    with pytest.raises(DataError, match="expected UTF-8 text"):
        read_document("x.json", gzip.compress(json.dumps(CLINIC).encode()))
