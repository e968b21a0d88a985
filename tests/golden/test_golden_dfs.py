"""DFSDT, ToT-DFS and CoT@N against recorded searches of the published code: what was asked, called and voted, in order.

Left out by rule: of searches that reach their query cap, the end. The published code pays for one more reply and throws it
away; ours uses every reply it pays for. There the order is compared up to the shorter of the two.
"""

import pytest

from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import CotAtN, Dfsdt, SearchSettings, TotDfs
from tests.helpers.recorded import Recorder
from tests.helpers.shared_data import shared_lines
from tests.helpers.worlds import small_world, tool

from tests.helpers.playing import chat, play  # isort: skip


def search(row):
    settings = SearchSettings(row["max_depth"], "nodes", row["width"], row["max_query_count"], text_is_answer=False)
    strategy = {
        "cot": lambda: CotAtN(row["pass_at"], settings),
        "dfsdt": lambda: Dfsdt(settings),
        "tot": lambda: TotDfs(settings),
    }
    model = Recorder(row)
    env = chat(small_world(*[tool(name) for name in row["tools"]]))
    play(env, LlmAgent(model, strategy[row["algorithm"]]()))
    return [event[:1] if event[0] == "llm" else event for event in model.events], env.episode


@pytest.mark.parametrize("algorithm,whole,capped", [("cot", 18, 0), ("dfsdt", 30, 4), ("tot", 7, 6)])
def test_every_search_goes_the_recorded_way(algorithm, whole, capped):
    compared = [0, 0]
    for row in shared_lines("data/algorithms/dfs.jsonl"):
        if row["algorithm"] != algorithm:
            continue
        events, episode = search(row)
        wanted = [(event[0],) if event[0] == "llm" else tuple(event[:2]) for event in row["trace"]]
        if algorithm != "cot" and row["query_count"] >= row["max_query_count"]:
            short = min(len(events), len(wanted))
            assert events[:short] == wanted[:short] and short >= len(wanted) - 3, row["id"]
            compared[1] += 1
        else:
            assert events == wanted, row["id"]
            assert (not episode.log[-1][2]) == row["win"]
            compared[0] += 1
    assert compared == [whole, capped]
