"""Prompts are read from the cache as far as an earlier request began alike, while its time to live lasts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.agents.models.base import Function, Message, PromptWriter
from costgym.simulators.calls import Usage
from costgym.simulators.errors import ConfigError
from costgym.simulators.pricing import PrefixCache
from costgym.simulators.pricing.prompt_cache import CacheRules, LongPrices, ModelPrices

FUNCTIONS, QUESTION, ANSWER = ("functions", 2000), ("question", 100), ("answer", 50)
AUTOMATIC = ModelPrices(input=2, output=10, cached=0.2)
EXPLICIT = ModelPrices(input=3, output=15, cached=0.3, cache_write=3.75)


def test_what_an_earlier_request_began_with_is_read_until_its_time_is_over():
    cache = PrefixCache(AUTOMATIC)
    read = [
        cache.bill(parts, at_s).cached_tokens
        for parts, at_s in [
            ([FUNCTIONS, QUESTION], 0.0),
            ([FUNCTIONS, QUESTION, ANSWER], 299.0),
            ([FUNCTIONS, QUESTION, ANSWER], 599.0),  # a use renews the time
            ([FUNCTIONS, ("another", 100)], 600.0),
            ([("other functions", 2000), QUESTION], 600.0),
            ([FUNCTIONS], 901.0),
        ]
    ]
    assert read == [0, 2100, 2150, 2000, 0, 0]


def test_short_prefixes_are_neither_kept_nor_read_and_steps_are_whole():
    cache = PrefixCache(ModelPrices(input=2, output=10, cached=0.2, cache=CacheRules(minimum_tokens=1024, step_tokens=128)))
    assert [cache.bill([("short", 1023)], 0.0).cached_tokens for _ in range(2)] == [0, 0]
    assert [cache.bill([("long", 1100)], 0.0).cached_tokens for _ in range(2)] == [0, 1024]


def test_where_marks_are_few_only_what_ends_at_one_is_kept():
    registered, system = ("registered", 500), ("system", 100)
    longer = [FUNCTIONS, registered, system]  # one more in the list of functions, so the system message comes later
    prompts = [
        ([FUNCTIONS, system, QUESTION], (2, 1)),
        ([*longer, QUESTION], (3, 2)),
        ([*longer, QUESTION, ANSWER], (3, 2)),
        ([*longer, ("summary", 10)], (3, 2)),  # a summary takes the place of the conversation
    ]
    for breakpoints, read in (
        (None, [0, 2000, 2700, 2600]), (1, [0, 0, 2700, 0]), (2, [0, 0, 2700, 2600]), (3, [0, 2000, 2700, 2600]),
    ):  # fmt: skip
        cache = PrefixCache(ModelPrices(input=2, output=10, cached=0.2, cache=CacheRules(breakpoints=breakpoints)))
        assert [cache.bill(parts, 0.0, marks=marks).cached_tokens for parts, marks in prompts] == read


def test_a_system_message_that_stands_first_is_compared_word_by_word():
    function = Function("f", "Looks up. " * 500, {})
    texts = [[Message("system", f"Be brief. {left} credits are left."), Message("user", "Go.")] for left in (30, 20)]
    read = {}
    for order in ("functions", "system"):
        rules = CacheRules(order=order, minimum_tokens=1)
        writer, cache = PromptWriter(rules), PrefixCache(ModelPrices(input=2, output=10, cached=0.2, cache=rules))
        prompts = [writer.write(messages, [function]) for messages in texts]
        usages = [cache.bill(prompt.parts, 0.0, same=prompt.same) for prompt in prompts]
        assert usages[0].input_tokens == function.tokens + sum(message.tokens for message in texts[0])
        read[order] = usages[1].cached_tokens
    assert read["functions"] == function.tokens > 1000 and 0 < read["system"] < texts[0][0].tokens
    marked = PromptWriter(CacheRules(breakpoints=4)).write(texts[0], [function])
    assert marked.marks == (2, 1) and marked.document()["marks"] == [2, 1] and "marks" not in prompts[0].document()


def test_vendors_that_charge_for_writing_are_paid_for_what_is_new():
    cache = PrefixCache(EXPLICIT)
    first, second = (cache.bill(parts, 0.0, 10) for parts in ([FUNCTIONS, QUESTION], [FUNCTIONS, QUESTION, ANSWER]))
    assert first == Usage(2100, 10, cache_write_tokens=2100) and second == Usage(2150, 10, 2100, cache_write_tokens=50)
    assert EXPLICIT.price(second) == pytest.approx((2100 * 0.3 + 50 * 3.75 + 10 * 15) / 1e6)


def test_long_prompts_have_prices_of_their_own_for_every_class():
    prices = ModelPrices(input=2, output=10, cached=0.2, above=(LongPrices(tokens=1000, input=4, output=15),), per_request=0.5)
    assert prices.price(Usage(1000, 100)) == pytest.approx(0.5 + (1000 * 2 + 100 * 10) / 1e6)
    assert prices.price(Usage(1001, 100, cached_tokens=1000)) == pytest.approx(0.5 + (4 + 1000 * 0.4 + 100 * 15) / 1e6)


def test_service_tiers_scale_what_tokens_cost_and_leave_fees():
    prices = ModelPrices(
        input=2, output=10, cached=0.2, cache_write=2.5, cache_write_1h=4, batch=0.5, per_request=0.5, search_per_query=0.01,
        above=(LongPrices(tokens=1000, input=4, output=15),),
    )  # fmt: skip
    for usage, tokens in (
        (Usage(900, 100, 300, cache_write_tokens=500), 100 * 2 + 300 * 0.2 + 200 * 2.5 + 300 * 4 + 100 * 10),
        (Usage(1900, 100, 300, cache_write_tokens=500), 1100 * 4 + 300 * 0.4 + 200 * 5 + 300 * 8 + 100 * 15),
    ):
        for tier, factor in (("standard", 1.0), ("batch", 0.5)):
            price = prices.in_service_tier(tier).price(usage, written_1h_tokens=300, searches=2)
            assert price == pytest.approx(0.52 + factor * tokens / 1e6)


def test_a_prompt_that_is_kept_for_an_hour_costs_more_to_write_and_outlives_a_slow_tool():
    prices = ModelPrices(input=2, output=10, cached=0.2, cache_write=2.5, cache_write_1h=4).kept_an_hour()
    cache = PrefixCache(prices)
    first, second = (cache.bill([FUNCTIONS], at_s) for at_s in (0.0, 3600.0))
    assert (second.cached_tokens, cache.bill([FUNCTIONS], 7201.0).cached_tokens) == (2000, 0)
    assert prices.price(first) == pytest.approx(2000 * 4 / 1e6)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cache": CacheRules(ttl_s=60)}, "needs a price of what is read"),
        ({"cache_write": 3.0}, "needs a price of what is read"),
        ({"above": (LongPrices(tokens=9, input=1, output=10),)}, "cost less than shorter ones"),
        ({"above": (LongPrices(tokens=9, input=2, output=10), LongPrices(tokens=9, input=2, output=10))}, "ascending"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused(fields, words):
    with pytest.raises(ConfigError, match=words):
        ModelPrices(input=2, output=10, **fields)


segments = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3000)), max_size=5)


@given(requests=st.lists(st.tuples(segments, st.floats(0, 400)), max_size=8), priced=st.booleans())
def test_every_prompt_token_is_read_written_or_new_and_a_cache_of_free_writes_never_costs_more(requests, priced):
    prices = EXPLICIT if priced else AUTOMATIC
    cache, now = PrefixCache(prices), 0.0
    for parts, pause in requests:
        now += pause
        usage = cache.bill(parts, now)
        assert usage.input_tokens == sum(tokens for _, tokens in parts)
        assert 0 <= usage.cached_tokens <= usage.input_tokens - usage.cache_write_tokens
        if not priced:
            assert prices.price(usage) <= prices.price(Usage(usage.input_tokens, usage.output_tokens))
