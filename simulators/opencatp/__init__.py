"""OpenCATP: vision plans under a price, with really executed tools.

The ten tools and what they cost (`tools`, `profile`, `levels`), the tasks (`tasks`), recorded plans and the official data set
(`pools`, `dataset`), generated scenes and the tools that run on them (`scenes`, `degrade`, `backend`), and what every chain of
tools (`table`) and so every plan (`evaluation`) is worth; `playing` runs a plan that grows while it runs.
"""

from .levels import size_level
from .pools import PoolPlan, load_pool
from .profile import Profile, ToolCost, load_profile, profile_names, save_profile, v100
from .scoring.evaluation import Evaluator, PlanOutcome, ScoreSource, evaluate_plan, sample_level, split_samples
from .scoring.table import OutcomeTable
from .tasks import OpenCATPTask, Output, all_tasks, task, tasks
from .tools import SIGNATURES, TOOLS

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
    "evaluate_plan",
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
