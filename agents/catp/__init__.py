"""CATP-LLM: a policy that writes priced plans token by token, trained offline; with IFT and RLTF as trained baselines.

Nothing here imports torch until something is trained or loaded.
"""

from __future__ import annotations

from .planner import CatpPlanner
from .settings import CatpSettings
from .training import TrainingResult, train_catp, train_ift, train_rltf

__all__ = ["CatpPlanner", "CatpSettings", "TrainingResult", "train_catp", "train_ift", "train_rltf"]
