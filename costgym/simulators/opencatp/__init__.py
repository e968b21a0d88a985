"""OpenCATP: vision plans under a price, with really executed tools.

`tools`, `profile` and `levels` hold the ten tools and what they cost, `tasks` the tasks. `pools` reads recorded plans, and
`plan_space` searches the plans of a task. `scenes` generates the images, `backends` runs the tools on them, and `scoring`
tells what every chain of tools, and so every plan, is worth. `world` plays plans and calls on the clock of every world.
"""

from costgym.simulators.opencatp.pools import PoolPlan, load_pool
from costgym.simulators.opencatp.profile import Profile, ToolCost, load_profile, profile_names, save_profile, v100
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, PlanOutcome, ScoreSource, sample_level, split_samples
from costgym.simulators.opencatp.scoring.table import OutcomeTable
from costgym.simulators.opencatp.tasks import OpenCATPTask, Output, all_tasks, task, tasks
from costgym.simulators.opencatp.tools import SIGNATURES, TOOLS, size_level

__all__ = [
    "SIGNATURES",
    "TOOLS",
    "Evaluator",
    "OpenCATPTask",
    "OutcomeTable",
    "Output",
    "PlanOutcome",
    "PoolPlan",
    "Profile",
    "ScoreSource",
    "ToolCost",
    "all_tasks",
    "load_pool",
    "load_profile",
    "profile_names",
    "sample_level",
    "save_profile",
    "size_level",
    "split_samples",
    "task",
    "tasks",
    "v100",
]
