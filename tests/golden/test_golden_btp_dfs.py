"""BTP inside tree searches against recorded runs: what was executed, judged, spent and left.

A choice that differs: ours stops as soon as nothing is left to call, theirs at the next node, after replies and votes that
can call nothing any more. There the rest of the recording must be without a call. And of a search that reaches its query cap
theirs throws away the last reply, which was paid for; ours uses it.
"""

from costgym.agents.btp.access import Btp
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import Dfsdt, SearchSettings, TotDfs
from tests.helpers.recorded import Recorder
from tests.helpers.shared_data import shared_lines
from tests.helpers.worlds import small_world, tool

from tests.helpers.playing import chat, play  # isort: skip


class Judgments:
    """Says of the n-th executed call what the recording says."""

    def __init__(self, row, events):
        self._left, self._events = list(row["judgments"]), events

    def helpful(self, query, name, arguments, text):
        flag = self._left.pop(0)
        self._events += [("env", name), ("judge", flag)]
        return bool(flag)


class Planned(Btp):
    """Plays a given plan."""

    planned_calls: dict[str, int]

    def reset(self, session):
        super().reset(session)
        self.plan, self.left = dict(self.planned_calls), dict(self.planned_calls)


def run(row):
    settings = SearchSettings(row["max_depth"], "nodes", row["width"], row["max_query_count"], text_is_answer=False)
    model = Recorder(row, calls=False)
    access = Planned(usefulness=Judgments(row, model.events))
    access.planned_calls = {name: facts["planned"] for name, facts in row["tools"].items()}
    world = small_world(*[tool(name, fee=float(facts["cost"])) for name, facts in row["tools"].items()])
    env = chat(world, budget={"price": row["budget"]})
    play(env, LlmAgent(model, (TotDfs if row["algorithm"] == "tot" else Dfsdt)(settings), [access]))
    return [event[:1] if event[0] in ("llm", "summary") else event for event in model.events], access, env.episode


def recorded(row):
    return [(event[0],) if event[0] in ("llm", "summary") else tuple(event[:2]) for event in row["trace"]]


def test_every_run_executes_judges_and_spends_as_recorded():
    rows, shorter, capped = shared_lines("data/algorithms/btp_dfs.jsonl"), 0, 0
    for row in rows:
        events, access, episode = run(row)
        wanted = recorded(row)
        assert events[-1] == ("summary",)
        if row["query_count"] >= row["max_query_count"]:
            assert events[: len(wanted) - 1] == wanted[:-1]
            capped += 1
        elif events != wanted:
            assert access.exhausted(), row["id"]
            rest = wanted[len(events) - 1 :]
            assert events[:-1] == wanted[: len(events) - 1], row["id"]
            assert all(event[0] in ("llm", "rank", "summary") or event == ("env", "Finish") for event in rest), row["id"]
            shorter += 1
        assert episode.ledger.price == row["spent"]
        assert access.left == row["remaining_plan"]
        assert sorted(access.blacklist) == sorted(name for name, state in row["tool_state"].items() if state == "useless")
        left = row["budget"] - row["spent"]
        for name, state in row["tool_state"].items():
            if state != "useless":
                exceeded = access.left[name] == 0 or row["tools"][name]["cost"] > left
                assert exceeded == (state == "exceeded"), (row["id"], name)
    assert (len(rows), shorter, capped) == (65, 11, 1)
