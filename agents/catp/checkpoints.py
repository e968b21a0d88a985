"""The checkpoints of `agents.checkpoints`, under the name they had."""

from ..checkpoints import (
    FOLDER,
    checkpoints,
    load_optimizer,
    load_weights,
    newest,
    save,
)

__all__ = ["FOLDER", "checkpoints", "load_optimizer", "load_weights", "newest", "save"]
