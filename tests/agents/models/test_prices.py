"""Price tables of LiteLLM and OpenRouter become tables of ours."""

import datetime
import json
from pathlib import Path
from types import SimpleNamespace as Part

import pytest

import costgym
from costgym.agents.models.named import priced_for
from costgym.agents.models.prices import SHIPPED, load_prices, shipped_prices
from costgym.agents.models.prices.imports import import_prices
from costgym.cli.tools.prices import import_table
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.pricing.prompt_cache import CacheRules, LongPrices, ModelPrices
from costgym.simulators.scenario import TokenPrices, load_scenario

DAY = datetime.date(2026, 11, 22)
LITELLM = {
    "sample_spec": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "mode": "one of: chat, embedding"},
    "small": {
        "input_cost_per_token": 1.5e-07,
        "output_cost_per_token": 6e-07,
        "cache_read_input_token_cost": 7.5e-08,
        "mode": "chat",
    },
    "plain": {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06, "mode": "chat"},
    "vectors": {"input_cost_per_token": 1e-07, "output_cost_per_token": 0.0, "mode": "embedding"},
    "unpriced": {"mode": "chat"},
}
OPENROUTER = {
    "data": [
        {"id": "a/small", "pricing": {"prompt": "0.00000015", "completion": "0.0000006", "input_cache_read": "0.000000075"}},
        {"id": "a/auto", "pricing": {"prompt": "-1", "completion": "-1"}},
    ]
}


@pytest.mark.parametrize(("document", "names"), [(LITELLM, ["small", "plain"]), (OPENROUTER, ["a/small"])])
def test_a_table_is_imported_per_million_tokens_and_can_be_used(tmp_path: Path, document: object, names: list[str]) -> None:
    file, out = tmp_path / "models.json", tmp_path / "prices.yaml"
    file.write_text(json.dumps(document))
    import_table(file, "2026-11-22", out)
    table = load_prices(out)
    assert table == import_prices(file, DAY)
    assert (table.date, list(table.models)) == (DAY, names)
    prices = table.models[names[0]]
    assert (prices.input, prices.output, prices.cached) == (0.15, 0.6, 0.075)


def test_everything_that_litellm_says_of_a_models_tokens_is_read(tmp_path: Path) -> None:
    long = {
        "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "mode": "chat", "prompt_cache_min_tokens": 2048,
        "cache_read_input_token_cost": 3e-07, "cache_creation_input_token_cost": 3.75e-06,
        "cache_creation_input_token_cost_above_1hr": 6e-06, "max_input_tokens": 1_000_000, "input_cost_per_request": 0.002,
        "input_cost_per_token_batches": 1.5e-06, "output_cost_per_token_batches": 7.5e-06,
        "input_cost_per_token_flex": 1.5e-06, "output_cost_per_token_flex": 7.5e-06, "cache_read_input_token_cost_flex": 3e-07,
        "input_cost_per_token_priority": 6e-06, "output_cost_per_token_priority": 3e-05,
        "search_context_cost_per_query": {"search_context_size_medium": 0.01},
        "input_cost_per_token_above_200k_tokens": 6e-06, "output_cost_per_token_above_200k_tokens": 2.25e-05,
        "cache_read_input_token_cost_above_200k_tokens": 6e-07,
        "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 1.2e-05,
    }  # fmt: skip
    file = tmp_path / "models.json"
    unread = {**long, "cache_read_input_token_cost": None, "input_cost_per_token_priority": None}
    cheaper = {**long, "input_cost_per_token_above_200k_tokens": 1e-06}
    file.write_text(json.dumps({"long": long, "written, never read": unread, "cheaper when long": cheaper}))
    assert import_prices(file, DAY).models == {
        "long": ModelPrices(
            input=3, output=15, cached=0.3, cache_write=3.75, cache_write_1h=6, cache=CacheRules(minimum_tokens=2048),
            batch=0.5, priority=2, search_per_query=0.01, per_request=0.002, window=1_000_000,  # flex reads at the full price
            above=(LongPrices(tokens=200_000, input=6, output=22.5, cached=0.6, cache_write_1h=12),),
        ),
        "written, never read": ModelPrices(
            input=3, output=15, batch=0.5, flex=0.5, search_per_query=0.01, per_request=0.002, window=1_000_000,
            above=(LongPrices(tokens=200_000, input=6, output=22.5),),
        ),
    }  # fmt: skip


def test_everything_that_genai_prices_says_of_a_day_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Part(input_mtok=5, output_mtok=25)
    new = Part(
        input_mtok=Part(base=2, tiers=[Part(start=200_000, price=4)]), output_mtok=10, cache_read_mtok=0.2,
        cache_write_mtok=2.5, cache_write_1h_mtok=4, web_searches_kcount=10, requests_kcount=5,
    )  # fmt: skip
    tiers = [
        Part(when={"processing": "batch"}, prices=Part(input_mtok=1, output_mtok=5), constraint=None),
        Part(when={"service_tier": "flex"}, prices=Part(input_mtok=1, output_mtok=10), constraint=None),
        Part(when={"service_tier": "priority", "speed": "fast"}, prices=Part(input_mtok=4, output_mtok=20), constraint=None),
    ]
    dated = [Part(constraint=None, prices=old), Part(constraint=Part(active=lambda noon: noon.date() >= DAY), prices=new)]
    model = Part(id="m", prices=dated, context_window=1_000_000, price_variants=tiers)
    package = Part(providers=[Part(id="v", models=[model])])
    monkeypatch.setattr("costgym.agents.models.prices.imports.require", lambda name, extra: package)
    assert import_prices("genai-prices", DAY).models["v/m"] == ModelPrices(
        input=2, output=10, cached=0.2, cache_write=2.5, cache_write_1h=4, batch=0.5, window=1_000_000, search_per_query=0.01,
        per_request=0.005,
        above=(LongPrices(tokens=200_000, input=4, output=10, cached=0.2, cache_write=2.5, cache_write_1h=4),),
    )  # fmt: skip
    before = import_prices("genai-prices", DAY - datetime.timedelta(days=1)).models["v/m"]
    assert (before.input, before.output) == (5, 25)


def test_the_package_genai_prices_is_a_source_too() -> None:
    pytest.importorskip("genai_prices")
    table = import_prices("genai-prices", DAY, ["anthropic/claude-sonnet-4-5"])
    prices = table.models["anthropic/claude-sonnet-4-5"]
    assert (prices.cached, prices.cache_write, prices.cache_write_1h, prices.batch) == (0.3, 3.75, 6, 0.5)


def test_what_cannot_be_imported_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    file, out = tmp_path / "models.json", tmp_path / "prices.yaml"
    file.write_text(json.dumps(LITELLM))
    with pytest.raises(UnknownName, match="unpriced"):
        import_table(file, "2026-11-22", out, models=("small", "unpriced"))
    with pytest.raises(costgym.ConfigError, match="YYYY-MM-DD"):
        import_table(file, "yesterday", out)
    for text, words in (("[]", "has no prices"), ("{", "is not valid JSON")):
        file.write_text(text)
        with pytest.raises(costgym.DataError, match=words):
            import_table(file, "2026-11-22", out)
    with pytest.raises(costgym.DataError, match="cannot be read"):
        import_table(tmp_path / "none.json", "2026-11-22", out)
    assert not out.exists()


def test_the_packages_tables_price_the_default_worlds_as_ever_and_todays_models_by_the_newest():
    old, new = (load_prices(path) for path in SHIPPED)
    assert (old.date.isoformat(), new.date.isoformat()) == ("2024-07-18", "2026-11-27")
    assert old.per_dollar == new.per_dollar and len(new.models) == 101
    assert all(0 < model.input <= model.output and (model.cached or 0) < model.input for model in new.models.values())
    assert shipped_prices("gpt-4o-mini-2024-07-18") == old
    assert shipped_prices("claude-haiku-4-5") == shipped_prices("nobody's") == new


def test_a_current_model_is_priced_by_the_shipped_tables(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example/v1")
    scenario = priced_for(load_scenario("marketplace-easy").model_copy(update={"tokens": None}), "openai:gpt-5-mini")
    assert scenario.tokens == TokenPrices(input=25.0, output=200.0, cached=2.5)
    assert "2026-11-27" in scenario.description
    with pytest.raises(ConfigError, match=r"my-model is not in the package's tables, the newest of 2026-11-27"):
        priced_for(scenario.model_copy(update={"tokens": None}), "openai:my-model")
