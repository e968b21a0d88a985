"""The world in time: episodes of calls that wait, start cold, run, fail and cost.

`world` states the rules in words and makes episodes, `episode` plays a task, `data` holds what is fixed about a world.
"""

from costgym.simulators.calls import Call, Candidate, Usage, WorldEvent
from costgym.simulators.ledger import Enforcement
from costgym.simulators.world.episode import Episode
from costgym.simulators.world.world import World

__all__ = ["Call", "Candidate", "Enforcement", "Episode", "Usage", "World", "WorldEvent"]
