"""`get_attr`, `set_attr` and `call` of Gymnasium's vector environments, for native batches."""

from typing import Any

import numpy as np

from costgym.simulators.errors import ConfigError


class AttributesByName:
    """The environments of a native batch by the names of their attributes and methods. All share the settings of one scalar
    environment; what a user sets beside those is each environment's own."""

    scalar: Any
    num_envs: int

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each environment: one that `set_attr` set, or a setting or a space of the scalar environment.

        Raises:
            ConfigError: it is the present episode or belongs to it, which compiled code does not keep.
        """
        values = self._own_attributes().get(name)
        return tuple(values) if values is not None else (getattr(self.scalar, name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment, to one value or to a list or tuple of N.

        Raises:
            ConfigError: it is one of the scalar environment's, which are fixed when the batch is made, or the number of values
                is another.
        """
        if hasattr(type(self.scalar), name) or name in vars(self.scalar):
            instead = 'make the batch with it, or use vectorization_mode="sync"'
            raise ConfigError(name, f"expected an attribute that the environments do not have; this one is fixed; {instead}")
        several = list(values) if isinstance(values, list | tuple | np.ndarray) else [values] * self.num_envs
        if len(several) != self.num_envs:
            raise ConfigError(name, f"expected one value or {self.num_envs}, one for each environment, got {len(several)}")
        self._own_attributes()[name] = several

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The result of a method for each environment, or an attribute of each, as Gymnasium's `SyncVectorEnv.call`.

        Raises:
            ConfigError: the method needs the present episode, which compiled code does not keep.
        """
        if name == "action_masks":
            return tuple(getattr(self, name)(*args, **kwargs))
        return tuple(value(*args, **kwargs) if callable(value) else value for value in self.get_attr(name))

    def _own_attributes(self) -> dict[str, list[Any]]:
        attributes: dict[str, list[Any]] = vars(self).setdefault("_set_attributes", {})
        return attributes
