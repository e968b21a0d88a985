"""BTP's values, caps and plans against the published code's, row by row."""

import numpy as np
import pytest

from costgym.agents.btp.plan import BtpSettings, expected_value, frequency_cap, plan_tool_usage
from tests.helpers.shared_data import shared_lines

VALUES = 219


def _rows():
    return shared_lines("data/algorithms/btp.jsonl")


def _cosine(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def test_every_plan_is_the_published_one():
    rows = _rows()
    for row in rows:
        tools = row["tools"]
        costs, values, caps = ([tool[key] for tool in tools] for key in ("cost", "value", "frequency_cap"))
        plan = plan_tool_usage(costs, values, caps, row["budget"])
        assert plan == [tool["planned"] for tool in tools], row["id"]
        assert sum(n * c for n, c in zip(plan, costs, strict=True)) == row["plan_cost"]
        assert sum(n * v for n, v in zip(plan, values, strict=True)) == pytest.approx(row["plan_value"], abs=1e-9)
    assert len(rows) == 180


def test_every_value_and_cap_is_the_published_one():
    compared = {"values": 0, "caps": 0, "half means": 0}
    for row in _rows():
        if row.get("kind") == "dp_only":
            continue
        settings = BtpSettings.published(row["threshold"])
        for tool in row["tools"]:
            past = [use for use in tool["experience"] if not use["is_test_query"]]
            value = expected_value(
                [_cosine(row["query_emb"], use["emb"]) for use in past], [use["helpful"] for use in past], settings
            )
            assert value == pytest.approx(tool["value"], rel=1e-9), (row["id"], tool["function"])
            compared["values"] += 1
            uses = tool["uses"]
            similarities = [_cosine(row["query_emb"], use["emb"]) for use in uses]
            counts, helpful = [use["count"] for use in uses], [use["helpful"] for use in uses]
            cap = frequency_cap(similarities, counts, value, settings, helpful)
            if uses and _is_half(similarities, counts, helpful, settings):
                compared["half means"] += 1  # the last bit of a float decides: a neighbour is as right
                assert abs(cap - tool["frequency_cap"]) <= 1
            else:
                compared["caps"] += 1
                assert cap == tool["frequency_cap"]
    assert compared == {"values": VALUES, "caps": VALUES - 69, "half means": 69}


def _is_half(similarities, counts, helpful, settings):
    weights = np.exp(np.asarray(similarities) - settings.offset)
    clipped = [count if useful else min(count, 1) for count, useful in zip(counts, helpful, strict=True)]
    mean = float(weights @ np.asarray(clipped) / weights.sum())
    return abs(mean - np.floor(mean) - 0.5) < 1e-9
