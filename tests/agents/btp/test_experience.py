"""Past uses: kept, judged, written and read back."""

import json

import pytest

from costgym.agents.btp.experience import Experience, PastQuery
from costgym.agents.btp.plan import BtpSettings, expected_value, frequency_cap
from costgym.agents.btp.usefulness import RuleBased
from costgym.simulators.errors import DataError
from costgym.simulators.retrieval.embedding import TextEmbedding


def test_a_helpful_tool_is_worth_more_than_a_useless_and_an_unknown_one():
    experience = Experience([PastQuery("the weather in Lille", {"good": (True, True), "bad": (False,)})])
    values = [value for value, _ in experience.estimates("the weather in Lyon", ["good", "bad", "unknown"], BtpSettings())]
    assert values[0] > 0.4 > values[2] > values[1]


def test_test_queries_never_make_a_value():
    experience = Experience([PastQuery("weather", {"good": (True,)}, test=True)])
    assert experience.estimates("weather", ["good"], BtpSettings()) == [(0.1, 1)]
    assert experience.estimates("weather", ["good"], BtpSettings.published(threshold=0.05)) == [(0.1, 1)]


def test_what_is_written_is_read_back():
    experience = Experience([PastQuery('the "weather" é', {"a": (True, False)}), PastQuery("b", {}, test=True)])
    assert Experience.from_jsonl(experience.to_jsonl()) == experience


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"uses": {}}', '{"query": "q", "uses": []}', '{"query": "q", "uses": {"a": []}}',
             '{"query": "q", "uses": {"a": [2]}}', '{"query": "q", "uses": {}, "test": 1}'],
)  # fmt: skip
def test_a_broken_line_is_named(line):
    good = PastQuery("q", {}).to_json()
    with pytest.raises(DataError, match="line 2"):
        Experience.from_jsonl(f"{good}\n{line}\n", "past.jsonl")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="none"):
        Experience.load(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    "text,helpful",
    [
        ('{"error": "timeout", "message": "504"}', False),
        ("{}", False), ("[]", False), ("", False), ("null", False),
        ('{"city": "Lille", "latitude": 62.2}', True),
        ('{"data": [{"city": "Krakow", "latitude": 28.8}]}', False),
        ('{"status": "ok", "output": "Fiona"}', True),
        ('{"error": null, "latitude": 62.2}', True),
        ('{"city": "Lille", "latit', True),
    ],
)  # fmt: skip
def test_usefulness_reads_the_text_alone(text, helpful):
    assert RuleBased().helpful("where is Lille", "map", {"city": "lille"}, text) is helpful


def test_names_of_arguments_are_found_in_any_spelling():
    assert not RuleBased().helpful("q", "pay", {"invoice_id": "IN-1"}, json.dumps({"invoiceId": "IN-2", "clerk": "T"}))


@pytest.mark.parametrize("choices", [{}, {"count_test_queries": True}, {"clip_unhelpful": False, "rounding": "floor"}])
def test_estimates_of_several_tools_are_the_published_formulas_tool_by_tool(choices):
    past = [
        PastQuery("the weather in Lille", {"good": (True, True), "bad": (False,)}),
        PastQuery("the weather in Paris today", {"good": (False,), "bad": (False, False)}, test=True),
        PastQuery("an invoice of a hotel", {"good": (True,), "other": (False, True, True)}),
    ]
    experience, chosen, query = Experience(past), BtpSettings(**choices), "the weather in Lyon"
    embedded = TextEmbedding([one.query for one in past])([query, *(one.query for one in past)])
    near = embedded[1:] @ embedded[0]
    for name, estimate in zip(
        ("good", "bad", "other"), experience.estimates(query, ["good", "bad", "other"], chosen), strict=True
    ):
        uses = [(near[i], flag) for i, one in enumerate(past) if not one.test for flag in one.uses.get(name, ())]
        value = expected_value([s for s, _ in uses], [float(flag) for _, flag in uses], chosen)
        counted = [(near[i], one) for i, one in enumerate(past) if chosen.count_test_queries or not one.test]
        queries = [(similarity, one.uses[name]) for similarity, one in counted if name in one.uses]
        counts, helped = [float(len(flags)) for _, flags in queries], [float(any(flags)) for _, flags in queries]
        cap = frequency_cap([s for s, _ in queries], counts, value, chosen, helped)
        assert estimate == (pytest.approx(value, rel=1e-12), cap)


def test_a_new_query_changes_the_estimates_at_once():
    experience = Experience([PastQuery("weather", {"good": (False,)})])
    before = experience.estimates("weather", ["good"], BtpSettings())[0]
    experience.add(PastQuery("weather", {"good": (True, True)}))
    assert experience.estimates("weather", ["good"], BtpSettings())[0][0] > before[0]
