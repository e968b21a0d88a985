"""costgym's marketplace as a taskset for verifiers."""

from costgym_tasks.taskset import MarketplaceTaskset

__all__ = ["MarketplaceTaskset"]
