"""Draw the future of an episode again, and keep its past: what an honest search forks with.

A tool's hidden state is not part of the past that an agent has seen. It is drawn from the belief of somebody who knows the
failure model, the tool's advert and how its calls have ended, so a fork tells nothing of the true reliability. Calls that are
on their way when the future is drawn keep their end, as do scheduled events; outages that have not begun are drawn again.
"""

from costgym.simulators.calls import Candidate
from costgym.simulators.draws import DURATION, KIND, OUTCOME, Draws, stable_integer
from costgym.simulators.episode import Episode
from costgym.simulators.failures import BurstTimes, Chain
from costgym.simulators.oracle.belief import FAILED, WORKED, Belief, cut_share, states_given


def redraw(episode: Episode, seed: int) -> None:
    """Let chance after this moment follow from another seed. The seed is hashed with the episode's, so equal seeds of two
    episodes have nothing in common."""
    episode.log.append(("redraw", redraw, seed))
    drawn = stable_integer(seed, "redraw", episode.seed, episode.number)
    episode._draws = draws = Draws(episode.world._source, drawn, episode.number, len(episode.candidates))
    for spec in episode.candidates:
        episode._chains[spec.index] = _chain(episode, spec, draws)
    outages = episode.world.failures.bursts
    if outages is not None:
        begun = [span for span in (episode.bursts.spans if episode.bursts else ()) if span[0] <= episode.now_s]
        # outages come without memory, so the gap to the next one begins now
        begun += [(episode.now_s, episode.now_s)] if not begun or begun[-1][1] <= episode.now_s else []
        episode.bursts = BurstTimes(outages, draws, len(episode.candidates), begun)


def _chain(episode: Episode, spec: Candidate, draws: Draws) -> Chain:
    """A tool's chain with its state, its usual failure and, where it was hidden, its last outcome drawn from the belief."""
    world, model = episode.world, episode.world.failures
    belief = Belief(states_given(model, spec.profile.advertised_success), model, spec.slip, spec.persistence, cut_share(spec))
    for call in episode.calls:
        if call.k and call.slot == spec.index and call.finished_s >= 0.0:
            belief.learn(call.status)
    row = draws.at(0, spec.index)
    state, last, usual = belief.draw(row[OUTCOME], row[KIND], row[DURATION])
    chances = (1.0 - spec.slip, 0.5, spec.slip)
    chain = Chain(draws, spec.index, chances, spec.persistence, model.sticky, world.kinds, state, _usual=usual)
    old = episode._chains[spec.index]
    outcomes = [] if old is None else list(old.outcomes[: episode.counts[spec.index]])
    if outcomes and last in (WORKED, FAILED):
        outcomes[-1] = last == WORKED
    chain.outcomes = outcomes
    return chain
