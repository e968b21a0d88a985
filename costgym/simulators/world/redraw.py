"""Draw the future of an episode again, and keep its past: what an honest search forks with.

A tool's hidden state is not part of the past that an agent has seen. It is drawn from the belief of somebody who knows the
failure model, the tool's advert and how its calls have ended, so a fork tells nothing of the true reliability. Calls that are
on their way when the future is drawn keep their end, as do scheduled events; outages that have not begun are drawn again.
"""

from collections.abc import Iterable

from costgym.simulators.calls import Call, Candidate
from costgym.simulators.draws import DURATION, KIND, OUTCOME, Draws
from costgym.simulators.failures import BurstTimes, FailureModel
from costgym.simulators.rules.failures import ALIVE
from costgym.simulators.rules.records import ToolState
from costgym.simulators.world.belief import FAILED, WORKED, Belief, cut_share, states_given


def redraw_tool(tool: ToolState, spec: Candidate, calls: Iterable[Call], model: FailureModel, draws: Draws) -> None:
    """Draw a tool's state, its usual failure and, where it was hidden, its last outcome from the belief after some calls."""
    belief = Belief(states_given(model, spec.profile.advertised_success), model, spec.slip, spec.persistence, cut_share(spec))
    for call in calls:
        if call.k and call.slot == spec.index and call.finished_s >= 0.0:
            belief.learn(call.status)
    row = draws.at(0, spec.index)
    state, last, tool.usual = belief.draw(row[OUTCOME], row[KIND], row[DURATION])
    tool.chain = ALIVE + state
    if tool.started and last in (WORKED, FAILED):
        tool.works = last == WORKED


def redraw_outages(outages: BurstTimes, now_s: float, draws: Draws) -> BurstTimes:
    """Outages that have begun, and new ones after them."""
    begun = [span for span in outages.spans if span[0] <= now_s]
    # outages come without memory, so the gap to the next one begins now
    begun += [(now_s, now_s)] if not begun or begun[-1][1] <= now_s else []
    return BurstTimes(outages.model, draws, outages.slot, begun)
