"""EcoAct against recorded runs: which functions are offered, and what is called.

Defects that are not rebuilt, and where the comparison of a run ends: a call of a function that was not registered (the
published code executes it), and a second registration of the same function (it shows the documentation twice).
"""

from costgym.agents.llm.access import EcoAct
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import Dfsdt, ReAct, SearchSettings
from tests.helpers.recorded import Recorder
from tests.helpers.shared_data import shared_lines
from tests.helpers.worlds import small_world, tool

from tests.helpers.playing import chat, play  # isort: skip

META = ("Finish", "finish", "tool_register", "function_selection", "functions_selection")


def run(row):
    settings = SearchSettings(row["max_depth"], "nodes", 2, 200, text_is_answer=False)
    model = Recorder(row)
    env = chat(small_world(*[tool(name) for name in row["candidates"]]))
    strategy = Dfsdt(settings) if row["algorithm"] == "dfsdt" else ReAct(settings)
    play(env, LlmAgent(model, strategy, [EcoAct(several=row["algorithm"] == "multi")]))
    return [plain(event) for event in model.events]


def plain(event):
    if event[0] == "llm":
        return ("llm", tuple(name for name in event[1] if name not in META))
    name = event[1].replace("functions_selection", "tool_register").replace("function_selection", "tool_register")
    return (event[0], name)


def recorded(row):
    """The recorded events up to the first that a defect made."""
    events, registered = [], ()
    for event in row["trace"]:
        if event[0] == "http":
            continue
        event = plain(event)
        if event[0] == "llm":
            if len(set(event[1])) < len(event[1]):
                return events, False
            registered = event[1]
        elif event[1] in row["candidates"] and event[1] not in registered:
            return events, False
        events.append(event)
    return events, True


def test_every_run_offers_and_calls_as_recorded_up_to_a_defect():
    rows, whole, compared = shared_lines("data/algorithms/ecoact.jsonl"), 0, 0
    for row in rows:
        events, (wanted, complete) = run(row), recorded(row)
        assert events[: len(wanted)] == wanted, row["id"]
        if complete:
            assert events == wanted, row["id"]
            whole += 1
        compared += len(wanted)
    assert (len(rows), whole, compared) == (45, 12, 153)
