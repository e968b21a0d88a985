"""From a log of conversations to a world, and how many of the personal details in a labelled set are replaced."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="the extra `train` is not installed")

import costgym
from costgym.agents import make_agent
from costgym.experiments.fit.forge.anonymise import Anonymiser
from costgym.experiments.fit.forge.traces import forge_traces
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import load_scenario
from tests.helpers.command_line import invoke

# kind, text with the details in braces
LABELLED = (
    ("mail", "Write to {anna.schmidt@firma.example} and {j_doe+news@mail.co.example}."),
    ("mail", "cc: <{support-team@shop.example}>, reply to {O.Brien@uni.example}"),
    ("telephone number", "Call {+49 30 1234567} or {(555) 123-4567}."),
    ("telephone number", "My number is {+1-202-555-0147}, at work {030 1234567}"),
    ("telephone number", "reach me on {07700 900123} after six"),
    ("card", "Charge {4111 1111 1111 1111}, expires 12/27."),
    ("card", "card={5500005555555559}&cvv=737"),
    ("card", "Amex {3782 822463 10005} please"),
    ("IBAN", "Transfer to {DE89 3704 0044 0532 0130 00} today"),
    ("IBAN", "iban {GB29NWBK60161331926819}"),
    ("token", "my key is {sk-proj-abcdefghijkl123456}"),
    ("token", "Authorization: Bearer {abcDEF123456.ghi-JKL}"),
    ("token", "use {ghp_0123456789abcdefghijABCDEFGHIJ012345} for the repository"),
    ("token", "{eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh}"),
    ("token", "https://api.example/v1?token={hunter2hunter2}"),
    ("IP address", "It came from {192.168.17.44} and {2001:0db8:85a3:0000:0000:8a2e:0370:7334}"),
    ("address", "Ship it to {42 Maple Grove Street, Apt 4}."),
    ("address", "I live at {1600 Pennsylvania Avenue}"),
    ("address", "Lieferung an {Hauptstraße 12}"),
    ("address", "Send to Flat 3, {221B Baker Street}"),
    ("address", "PO Box {1187}, Leeds"),
    ("social security number", "SSN {123-45-6789}"),
    ("name", "The parcel of {Anna Schmidt} never came."),
    ("name", "{Maria} and {John Smith} want a refund."),
    ("name", "Dr. {Zoltan Varga} asked for it"),
    ("name", "Please tell {Wei Zhang} and {Priya Patel}."),
    ("name", "Mrs. {Oyelaran}'s booking"),
    ("name", "customer: {Jürgen Müller}, order 12"),
    ("name", "for {Mohammed Al-Farsi}"),
    ("name", "ask {Tomasz Wiśniewski}"),
    ("name", "{anna schmidt} wrote in small letters"),
    ("name", "contact {Ngozi Okonkwo}"),
    ("name", "{Siobhan Murphy} is waiting"),
    ("name", "from {Sarah}'s account"),
)  # fmt: skip
# records of which fields say what they hold
RECORDS = (
    {"id": "C-7", "name": "{Ngozi Okafor}", "email": "{n.okafor@shop.example}", "phone": "{5551234567}",
     "shipping_address": "{7 The Elms}", "note": "{Ngozi} asked twice"},
    {"firstName": "{Zadie}", "lastName": "{Ekwueme}", "dateOfBirth": "{1990-04-12}", "city": "Leeds"},
    {"patient": {"full_name": "{Siobhán Ó Dálaigh}", "ssn": "{123456789}", "mobile_number": "{(0161) 4960}"}},
    {"login": "{octo-hubot}", "title": "Build of {octo-hubot}/site is red"},
    {"card_holder": "{IVAN PETRENKO}", "card_number": "{4000 0000 0000 0000}", "password": "{correct horse}"},
    {"orders": [{"customer_name": "{li wei}", "total": 12}], "remark": "{zuzanna} will fetch it"},
    {"nick": "{Kit}", "fax": "{0049 89 99}"},
)  # fmt: skip
PLAIN_RECORDS = (
    {"name": "Blue Lamp", "price": 12},
    {"address": None, "phone": True, "email": {"verified": True}, "tokens": 512},
)
PLAIN = (
    "Search flights from Berlin to London Heathrow on 2026-03-01.",
    "Order 1234567890123 has 3 items for 1,299.00 EUR.",
    "What is the weather in Paris in April?",
    "Merge pull request 4411 in the repository acme/shop-frontend.",
    "The version is 10.2.1 and the build 20260301.",
    "List the open issues of Project Apollo.",
    "Convert 250 USD to JPY at today's rate.",
    "Is New York in the same time zone as Toronto?",
)  # fmt: skip


def test_the_share_of_personal_details_that_is_replaced_is_what_the_page_says() -> None:
    missed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for kind, text in LABELLED:
        details = [part.split("}")[0] for part in text.split("{")[1:]]
        shown = Anonymiser().text(text.replace("{", "").replace("}", ""))
        total[kind] += len(details)
        missed[kind] += sum(detail in shown for detail in details)
    assert (sum(total.values()) - sum(missed.values()), sum(total.values())) == (37, 41)
    assert {kind: count for kind, count in missed.items() if count} == {"address": 1, "name": 3}
    assert [text for text in PLAIN if Anonymiser().text(text) != text] == []


def test_fields_of_records_say_which_details_they_hold() -> None:
    details, left = 0, []
    for record in RECORDS:
        labelled, hidden = json.dumps(record, ensure_ascii=False), Anonymiser()
        plain = json.loads(re.sub(r"\{([^{}\"]*)\}", r"\1", labelled))
        hidden.learn([plain])
        shown = json.dumps(hidden.value(plain), ensure_ascii=False)
        named = re.findall(r"\{([^{}\"]*)\}", labelled)
        details += len(named)
        left += [detail for detail in named if re.search(rf"\b{re.escape(detail)}", shown)]
    assert (details, left) == (20, ["zuzanna", "Kit"])
    hidden = Anonymiser()
    hidden.learn(PLAIN_RECORDS)
    assert [hidden.value(record) for record in PLAIN_RECORDS] == list(PLAIN_RECORDS)


def test_what_differs_in_a_log_differs_in_what_replaces_it() -> None:
    hidden = Anonymiser()
    mails = [hidden.text(f"anna{number}@mail.example") for number in range(2_000)]
    assert len(set(mails)) == 2_000


def test_what_is_alike_stays_alike_and_shapes_are_kept() -> None:
    hidden = Anonymiser()
    value = hidden.value({"to": "Anna Schmidt", "card": 4111111111111111, "n": [3, "mail a@b.example", True]})
    assert set(value) == {"to", "card", "n"} and value["n"][0] == 3 and value["n"][2] is True
    assert len(str(value["card"])) == 16 and value["card"] != 4111111111111111
    assert hidden.text("Anna Schmidt").startswith(value["to"]) and hidden.counts == {"card": 1, "mail": 1, "name": 1}


def conversation(number: int) -> dict[str, object]:
    mail, customer = f"anna{number}@mail.example", f"C-{1000 + number}"

    def call(name: str, arguments: dict[str, object], result: object) -> list[dict[str, object]]:
        called = {"id": name, "function": {"name": name, "arguments": json.dumps(arguments)}}
        return [
            {"role": "assistant", "tool_calls": [called]},
            {"role": "tool", "tool_call_id": name, "content": json.dumps(result)},
        ]

    return {
        "session_id": f"s{number}",
        "messages": [
            {"role": "user", "content": f"Where is the last order of {mail}? Then refund it."},
            *call("find_customer", {"email": mail, "limit": 5}, {"id": customer, "name": "Anna Schmidt"}),
            *call("last_order", {"customer_id": customer}, {"order": f"O-{5000 + number}", "city": "Porto"}),
            *call("create_refund", {"order_id": f"O-{5000 + number}"}, {"refund": f"RF-{7000 + number}"}),
            {"role": "assistant", "content": f"It is in Porto, and refund RF-{7000 + number} is on its way."},
        ],
    }


def test_a_log_of_conversations_becomes_a_world_that_can_be_played(tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "world.yaml"
    log.write_text("".join(json.dumps(conversation(number)) + "\n" for number in range(12)))
    stdout = invoke("forge", "--traces", str(log), "--out", str(out), "--page", str(tmp_path / "page.html")).stdout
    assert "12 tasks with the words of the log's users, 3 tools" in stdout
    assert "replaced: 12 mails, 1 name;" in stdout
    page = (tmp_path / "page.html").read_text()
    assert (
        '<td>mail</td><td class="text">12</td>' in page
        and "This is not complete" in page
        and "(customer_id from call 1): O-5000" in page
    )
    text = out.read_text()
    assert "anna0@mail.example" not in text and "Anna Schmidt" not in text
    scenario = load_scenario(out)
    world = scenario.build()
    needs = world.tasks[0].needs
    assert [need.capability for need in needs] == ["find_customer", "last_order", "create_refund"]
    assert [need.fact for need in needs] == ["C-1000", "O-5000", "RF-7000"]
    assert [need.asked for need in needs] == [False, False, True] and [need.state for need in needs] == [False, False, True]
    assert "limit" not in (needs[0].arguments or {}) and needs[2].arguments == {"order_id": "O-5000"}
    tool = world.catalog.get("last_order")
    assert json.loads(world.answers.answer(tool, {"customer_id": "C-1003"}, world.tasks[3]) or "") == {
        "order": "O-5003", "city": "Porto",
    }  # fmt: skip
    env = costgym.make("costgym/Marketplace-v0", scenario=scenario, split="test")
    results = costgym.rollout(env, make_agent("oracle"), episodes=12, seed=0)
    assert all(result.strict for result in results)


def test_details_stay_if_one_asks_for_it_and_a_log_without_queries_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(conversation(number)) + "\n" for number in range(3)))
    made, report = forge_traces(log, [], "x", tmp_path, anonymise=False)
    assert "anna0@mail.example" in json.dumps(made.document) and report["replaced"] == {}
    log.write_text('{"tool": "a", "started": 1, "latency_s": 1, "status": "ok", "episode": "e"}\n' * 3)
    with pytest.raises(ConfigError, match=r"no episode of .* can become a task; 1 episodes: nothing says what its user asked"):
        forge_traces(log, [], "x", tmp_path)
