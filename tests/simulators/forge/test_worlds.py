"""Forged worlds: data flow, queries, answers, and the rules that every scenario keeps."""

import json
import pickle
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

import costgym
from costgym.agents import make_agent
from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.forge.compose import kinds_of
from costgym.simulators.forge.graph import graph_of
from costgym.simulators.forge.queries import problem_of
from costgym.simulators.forge.readers.reading import read_document
from costgym.simulators.forge.requests import problem_of_task
from costgym.simulators.forge.values import FORMS, distinctive, draw, matches, spec_of
from costgym.simulators.forge.words import is_english, plural, singular, split, written
from costgym.simulators.scenario import Scenario, parse_scenario
from costgym.simulators.tasks import Task, fact_in, normalise
from costgym.simulators.tools import CHECK, KEY, UNDO, WRITE
from tests.helpers.specifications import BOTOCORE, CLINIC, DISCOVERY, SHOP, SWAGGER, content, forged


def tasks(scenario: Scenario, count: int = 60) -> list[Task]:
    world = scenario.build()
    return [world.tasks[number] for split in ("train", "test") for number in world.tasks.numbers(split)[: count // 2]]


# -- the graph -------------------------------------------------------------------------------------------------------------


def test_ids_flow_from_lists_to_records_and_along_references() -> None:
    graph = graph_of(read_document("clinic.json", content(CLINIC)))
    takes = [
        (capability.operation.name, a.entity) for capability in graph.capabilities for a in capability.arguments if a.entity
    ]
    gives = [
        (capability.operation.name, fact.gives) for capability in graph.capabilities for fact in capability.facts if fact.gives
    ]
    links = {(a, b, entity) for a, entity in gives for b, other in takes if entity == other and a != b}
    assert {("listOwners", "getOwner", "owner"), ("listPets", "getPet", "pet"), ("getVisit", "getPet", "pet")} < links
    assert {("getPet", "getOwner", "owner"), ("listPets", "deletePet", "pet")} < links
    assert dict(graph.unused) == {}
    assert graph.entities["owner"].known_as == "name"


def test_google_paths_written_out_name_the_entity() -> None:
    graph = graph_of(read_document("boats.json", content(DISCOVERY)))
    assert [(capability.entity, capability.arguments[0].entity) for capability in graph.capabilities] == [("boat", "boat")]


def test_operations_that_write_by_name_are_no_reads_whatever_their_method() -> None:
    document = {
        **CLINIC,
        "paths": {"/x/{id}": {"get": {**CLINIC["paths"]["/owners/{ownerId}"]["get"], "operationId": "DeleteOwner"}}},
    }
    graph = graph_of(read_document("x.json", content(document)))
    assert [(capability.verb, capability.role) for capability in graph.capabilities] == [("delete", "remove")]


def test_what_cannot_be_used_is_counted_by_reason() -> None:
    bare = {"operationId": "getThing", "responses": {"200": {"description": "ok"}}}
    german = {**CLINIC["paths"]["/owners"]["get"], "summary": "Liefert die Besitzer mit den Adressen für die Rechnung"}
    paths = {"/things": {"get": bare}, "/owners": {"get": german}}
    graph = graph_of(read_document("x.json", content({**CLINIC, "paths": paths})))
    assert dict(graph.unused) == {"response not described": 1, "not in English": 1}


# -- tasks -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("documents", [(CLINIC,), (BOTOCORE,), (SWAGGER,), (CLINIC, SWAGGER)])
def test_every_task_is_asked_in_words_and_answered_by_each_of_its_tools(documents: tuple[dict[str, object], ...]) -> None:
    scenario = forged(*documents)
    world = scenario.build()
    for task in tasks(scenario):
        values = [str(value) for need in task.needs for value in (need.arguments or {}).values()]
        assert problem_of(task.query, values) is None
        for need in task.needs:
            assert not need.asked or normalise(need.fact) not in normalise(task.query)
            assert set(need.tools) & set(task.candidates)
            for name in need.tools:
                tool = world.catalog.get(name)
                Draft202012Validator(dict(tool.parameters), format_checker=FormatChecker()).validate(need.arguments)
                answer = world.answers.answer(tool, need.arguments or {}, task)
                assert answer is not None and fact_in(need.fact, normalise(answer))


def test_an_argument_is_the_fact_that_an_earlier_need_finds() -> None:
    chained = [task for task in tasks(forged(CLINIC), 200) if any(need.after for need in task.needs)]
    assert len(chained) > 40
    for task in chained:
        for need in task.needs:
            facts = {task.needs[before].fact for before in need.after}
            assert facts <= {str(value) for value in (need.arguments or {}).values()}


def test_an_example_that_is_a_template_is_no_value() -> None:
    visit = json.loads(json.dumps(CLINIC["paths"]["/visits/{visitId}"]))
    visit["get"]["parameters"][0] = {
        "name": "lot",
        "in": "query",
        "required": True,
        "schema": {"type": "string", "example": "{{lot}}"},
    }
    graph = graph_of(read_document("x.json", content({**CLINIC, "paths": {"/visits": visit}})))
    assert dict(graph.unused) == {"an argument of unknown form": 1}


def test_queries_read_like_a_persons() -> None:
    queries = " ".join(task.query for task in tasks(forged(CLINIC), 300))
    for words in ('of the owner called "', "that owner", "the birth date of pet ", "of the owner of pet ", "elete that pet."):
        assert words in queries
    for words in ("ownerId", "petId", "birthDate", "{", "None"):
        assert words not in queries


def test_wrong_ids_find_nothing_and_ids_of_others_in_a_list_find_others() -> None:
    scenario = forged(CLINIC)
    world = scenario.build()
    task = world.tasks[0]
    listed, get = (next(t for t in world.catalog if t.name == name) for name in ("listOwners", "getOwner"))
    owners = json.loads(world.answers.answer(listed, {}, task) or "")
    assert len(owners) == 5 and len({owner["id"] for owner in owners}) == 5
    for owner in owners:
        record = json.loads(world.answers.answer(get, {"ownerId": owner["id"]}, task) or "")
        assert {key: record[key] for key in ("name", "email", "city")} == {key: owner[key] for key in ("name", "email", "city")}
    assert world.answers.answer(get, {"ownerId": 1}, task) is None
    assert world.answers.answer(get, {}, task) is None


def test_tools_that_write_have_checks_and_keys_and_can_be_taken_back_where_the_document_says_so() -> None:
    effects = {tool.name: tool.effect for tool in forged(SHOP).build().catalog if tool.effect and "_via_" not in tool.name}
    assert {name: (effect.role, effect.of) for name, effect in effects.items()} == {
        "updateCustomer": (WRITE, "updateCustomer"),
        "createOrder": (WRITE, "createOrder"),
        "listOrders": (CHECK, "createOrder"),
        "cancelOrder": (UNDO, "createOrder"),
    }
    assert (effects["createOrder"].idempotent, effects["createOrder"].by_arguments) == (True, False)
    assert (effects["updateCustomer"].idempotent, effects["updateCustomer"].by_arguments) == (True, True)


def test_a_check_an_undo_and_a_repeat_do_what_they_say() -> None:
    scenario = forged(SHOP, train=40, test=40)
    env = costgym.make("costgym/MarketplaceChat-v0", scenario=scenario, split="test", budget={"price": 1e6})
    seed = next(n for n in range(40) if _wants(env, n, "createOrder"))
    env.reset(seed=seed)
    need = next(need for need in env.unwrapped.task.needs if need.capability == "createOrder")
    call = {"name": "createOrder", "arguments": {**need.arguments, KEY: "k"}}
    for name, arguments, words in (
        (call["name"], call["arguments"], need.fact),
        (call["name"], call["arguments"], need.fact),
        ("listOrders", {"customerId": need.arguments["customerId"]}, '"found": 1'),
        ("cancelOrder", {"orderId": need.fact}, "taken back"),
        ("listOrders", {"customerId": need.arguments["customerId"]}, '"found": 0'),
    ):
        observation = ""
        for _ in range(30):  # failures are tried again
            observation = str(env.step(json.dumps({"name": name, "arguments": arguments}))[0])
            if words in observation:
                break
        assert words in observation


def _wants(env: Any, seed: int, capability: str) -> bool:
    env.reset(seed=seed)
    names = {need.capability for need in env.unwrapped.task.needs}
    offered = set(env.unwrapped.task.candidates)
    return capability in names and {"createOrder", "listOrders", "cancelOrder"} <= offered


@pytest.mark.parametrize("document", [CLINIC, BOTOCORE, SWAGGER, SHOP], ids=["clinic", "botocore", "swagger", "shop"])
def test_every_task_says_what_its_calls_take_and_asks_for_nothing_that_it_states(document: dict[str, object]) -> None:
    for task in tasks(forged(document), 200):
        assert problem_of_task(task) is None
        for need in task.needs:
            facts = [task.needs[number].fact for number in need.after]
            for value in (need.arguments or {}).values():
                assert str(value) in task.query or str(value) in facts
    broken = replace(task, needs=(replace(task.needs[0], arguments={"id": "nowhere"}), *task.needs[1:]))
    assert "nothing says the id of" in (problem_of_task(broken) or "")


def _operation(name: str, *ids: str, about: str = "", **properties: Any) -> dict[str, Any]:
    """An operation that takes texts as ids, and gives and, if it has a body, takes `properties`."""
    text = {"type": "string"}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    made = {
        "operationId": name,
        "parameters": [{"name": name, "in": "path", "required": True, "description": about, "schema": text} for name in ids],
        "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": schema}}}},
    }
    return made if ids else made | {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def test_queries_name_numbers_logins_amounts_and_what_things_belong_to_as_people_do() -> None:
    text, cents = {"type": "string"}, {"type": "integer", "minimum": 100, "maximum": 90_000}
    engine = _operation("getEngine", "engine_id", about="One of `ada`, `curie` or `davinci`.", id=text, email=text)
    refund = _operation("getRefund", "refundId", id=text, orderId=text, amountCents=cents, reason=text)
    paths = {
        "/engines/{engine_id}": {"get": engine},
        "/repositories/{username}/{slug}/pullrequests/{pid}": {
            "get": _operation("getPull", "username", "slug", "pid", title=text)
        },
        "/orders/{orderId}": {"get": _operation("getOrder", "orderId", id=text, trackingNumber=text)},
        "/refunds/{refundId}": {"get": refund},
        "/refunds": {"post": _operation("createRefund", orderId=text, amountCents=cents)},
        "/bookings/{bookingId}": {"get": _operation("getBooking", "bookingId", id=text, passengerName=text)},
        "/bookings": {"post": _operation("createBooking", passengerName=text)},
        "/bookings/{bookingId}/cancel": {"post": _operation("cancelBooking", "bookingId", id=text)},
    }
    made = tasks(forged({"openapi": "3.0.3", "info": {"title": "Desk", "version": "1"}, "paths": paths}), 300)
    queries = "\n".join(task.query for task in made)
    for pattern in (
        r"engine (ada|curie|davinci)\b", r"pull request \d{4} of [a-z]+-[a-z]+\d\d's repository", r"the reason for refund",
        r"an amount of \$\d+\.\d\d\.", r"the amount of refund", r"the order that refund \S+ belongs to",
    ):  # fmt: skip
        assert re.search(pattern, queries), pattern
    assert "cents" not in queries and "the order of refund" not in queries
    assert not any(re.search("Create a booking.*that booking", task.query) for task in made)
    wanted = next(need for task in made for need in task.needs if need.capability == "createRefund")
    assert isinstance((wanted.arguments or {})["amountCents"], int)
    assert all(problem_of_task(task) is None for task in made)


def test_a_world_made_before_version_1_is_composed_as_it_was() -> None:
    document = forged(CLINIC).model_dump(mode="json")
    source = document["source"]
    del source["version"]
    source["capabilities"] = [capability for capability in source["capabilities"] if "verb" not in capability]
    source["tools"] = [tool for tool in source["tools"] if not tool["writes"]]
    queries = [task.query for task in tasks(parse_scenario(document), 300)]
    assert any("What is the ID of the owner called" in query for query in queries)
    assert not any("lete that pet" in query or "lete pet" in query for query in queries)


def test_mirrors_are_named_and_sell_the_same_operation_at_another_price() -> None:
    world = forged(CLINIC).build()
    rivals = [tool for tool in world.catalog if tool.capability == "getOwner"]
    assert len(rivals) >= 2 and len({tool.provider for tool in rivals}) == len(rivals)
    assert all("Offered through" in tool.description for tool in rivals[1:])
    assert all(tool.parameters == rivals[0].parameters for tool in rivals)


def test_declared_errors_give_the_kinds_of_failures_and_rate_limits() -> None:
    assert set(kinds_of([[404], [429]])) == {"server_error", "timeout", "connection_error", "empty", "irrelevant", "not_found"}
    assert "unauthorized" in kinds_of([[403]]) and "not_found" in kinds_of([])
    limited = {tool.capability for tool in forged(CLINIC).build().catalog if tool.profile.rate_limit}
    assert limited == {"listOwners"}


def test_the_same_documents_and_seed_give_the_same_world_and_another_seed_another() -> None:
    first, again, other = forged(CLINIC), forged(CLINIC), forged(CLINIC, seed=1)
    assert first.digest == again.digest != other.digest
    assert tasks(first) == tasks(again)
    assert [task.query for task in tasks(first)] != [task.query for task in tasks(other)]


def test_a_world_pickles_and_answers_as_before() -> None:
    world = forged(CLINIC).build()
    other = pickle.loads(pickle.dumps(world))
    task = world.tasks[5]
    need = task.needs[0]
    tool = world.catalog.get(need.tools[0])
    assert other.tasks[5] == task
    assert other.answers.answer(tool, need.arguments, task) == world.answers.answer(tool, need.arguments or {}, task)


def test_a_form_of_values_without_what_it_needs_is_refused() -> None:
    document = forged(CLINIC).model_dump(mode="json")
    document["source"]["entities"]["owner"]["id"] = {"form": "integer"}
    with pytest.raises(DataError, match=r"entities\.owner\.id: the form 'integer' needs low and high"):
        parse_scenario(document)


def test_train_and_test_share_no_entity() -> None:
    world = forged(CLINIC).build()
    ids = [
        {
            str(v)
            for n in world.tasks.numbers(split)[:50]
            for need in world.tasks[n].needs
            for v in (need.arguments or {}).values()
        }
        for split in ("train", "test")
    ]
    assert not ids[0] & ids[1]


def test_a_scenario_that_refers_to_what_is_not_there_is_refused_with_the_name() -> None:
    document = forged(CLINIC).model_dump(mode="json")
    document["source"]["capabilities"][0]["facts"][0]["entity"] = "unicorn"
    with pytest.raises(UnknownName, match="unicorn"):
        parse_scenario(document).build()
    document = forged(CLINIC).model_dump(mode="json")
    document["source"]["tools"] = document["source"]["tools"][:1]
    with pytest.raises(DataError, match="no tool reads"):
        parse_scenario(document).build()


def test_agents_play_it_in_numbers_and_in_text_and_the_bounds_hold() -> None:
    scenario = forged(CLINIC)
    shares = {}
    for name in ("random", "greedy", "oracle-informed", "oracle"):
        env = costgym.make("costgym/Marketplace-v0", scenario=scenario, split="test")
        results = costgym.rollout(env, make_agent(name), episodes=40, seed=0)
        shares[name] = sum(result.quality for result in results)
    assert shares["oracle"] >= shares["oracle-informed"] >= shares["greedy"] >= shares["random"]
    chat = costgym.make("costgym/MarketplaceChat-v0", scenario=scenario, split="test")
    results = costgym.rollout(chat, make_agent("react"), episodes=30, seed=0)
    assert any(result.strict for result in results)


# -- values and words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "schema", "form"),
    [
        ("createdAt", {"type": "string", "format": "date-time"}, "moment"),
        ("originAirport", {"type": "string"}, "airport"),
        ("currencyCode", {"type": "string"}, "currency"),
        ("email_address", {"type": "string"}, "email"),
        ("unitPrice", {"type": "number"}, "money"),
        ("followers_count", {"type": "integer"}, "integer"),
        ("orderId", {"type": "string", "example": "ORD-12345"}, "like"),
        ("opened", {"type": "string", "example": "2026-01-02"}, "day"),
        ("kind", {"type": "string", "enum": ["a", "b"]}, "enum"),
        ("blob", {"type": "string", "format": "binary"}, None),
    ],
)
def test_a_value_has_the_form_that_name_schema_and_example_say(name: str, schema: dict[str, object], form: str | None) -> None:
    spec = spec_of(name, schema)
    assert (spec and spec["form"]) == form


@given(st.sampled_from(sorted(FORMS)), st.integers(0, 2**62), st.text(max_size=8))
def test_every_form_draws_the_same_plain_value_for_the_same_names(form: str, seed: int, name: str) -> None:
    spec = {"form": form, "of": ["alpha", "beta", "gamma"], "low": 5.0, "high": 5000.0, "example": "AB-1234"}
    value = draw(spec, seed, name)
    assert value == draw(spec, seed, name) and json.loads(json.dumps(value)) == value
    assert str(value).strip() == str(value) != ""


def test_yes_or_no_and_few_choices_are_not_asked_for() -> None:
    assert not distinctive({"form": "boolean"}) and not distinctive({"form": "enum", "of": ["on", "off"]})
    assert not distinctive({"form": "integer", "low": 0, "high": 9}) and distinctive({"form": "money"})


@settings(deadline=1_000)
@given(st.text(alphabet="ab()*+?{},.|[]^$\\19", max_size=30))
def test_no_pattern_takes_long(pattern: str) -> None:
    matches(pattern, "a" * 200 + "b")


def test_words_of_identifiers() -> None:
    assert [written(split(name)) for name in ("petId", "created_at", "WebACLs", "s3Bucket", "IoTDevice")] == [
        "pet ID",
        "created at",
        "web acls",
        "S3 bucket",
        "IOT device",
    ]
    assert [singular(word) for word in ("categories", "boxes", "status", "people", "houses")] == [
        "category",
        "box",
        "status",
        "person",
        "house",
    ]
    assert plural("gift box") == "gift boxes" and plural("city") == "cities"
    assert is_english("List the orders of a customer") and not is_english("Liste des commandes pour un client dans la boutique")
