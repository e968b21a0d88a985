"""Settings of the property tests."""

from hypothesis import HealthCheck, settings

# A busy machine makes an example slow, not wrong; the same code meets the same examples.
settings.register_profile("costgym", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("costgym")
