"""OpenCATP: vision plans under a price, with really executed tools.

The ten tools and what they cost (`tools`, `profile`, `levels`), the tasks (`tasks`), recorded plans and the official data set
(`pools`, `dataset`), generated scenes and the tools that run on them (`scenes`, `degrade`, `backend`), and what every chain of
tools is worth (`table`).
"""

from .levels import size_level
from .pools import PoolPlan, load_pool
from .profile import Profile, ToolCost, load_profile, profile_names, save_profile, v100
from .table import OutcomeTable
from .tasks import OpenCATPTask, Output, all_tasks, task, tasks
from .tools import SIGNATURES, TOOLS

__all__ = [
    "SIGNATURES",
    "TOOLS",
    "OpenCATPTask",
    "OutcomeTable",
    "Output",
    "PoolPlan",
    "Profile",
    "ToolCost",
    "all_tasks",
    "load_pool",
    "load_profile",
    "profile_names",
    "save_profile",
    "size_level",
    "task",
    "tasks",
    "v100",
]
