"""What a call costs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import ConfigError, InvalidProfile
from costgym.simulators.pricing import PRICINGS, FaasPricing, ListPricing
from costgym.simulators.scenario import load_scenario

MEMORY = st.floats(0.0, 20_000.0)
INSTANT = st.floats(-100.0, 20_000.0)


def test_a_size_on_an_edge_belongs_to_the_tier_below_it() -> None:
    pricing = FaasPricing.opencatp()
    assert pricing.rate_per_ms(128.0) == 128.0 * 2.1e-9
    assert pricing.rate_per_ms(128.1) == 128.1 * 8.3e-9


def test_the_5120_mb_tier_is_a_third_of_its_gpu_row() -> None:
    assert FaasPricing.opencatp().rate_per_ms(5000.0) == 5000.0 * 8.33e-8


def test_sizes_above_the_top_tier_are_clamped_to_it() -> None:
    assert FaasPricing.opencatp().rate_per_ms(20_000.0) == 20_000.0 * 1.667e-7


def test_gpu_memory_costs_three_times_as_much() -> None:
    pricing = FaasPricing.opencatp()
    assert pricing.rate_per_ms(0.0, gpu_cons_mb=1000.0) == 1000.0 * (1.67e-8 * 3)


def test_aws_bills_the_tier_not_the_memory_again() -> None:
    pricing = FaasPricing.aws()
    assert pricing.rate_per_ms(600.0) == pricing.rate_per_ms(1024.0) == 1.67e-8
    assert pricing.rate_per_ms(0.0) == 0.0
    assert pricing.price(np.array([100.0]), 600.0).tolist() == [pricing.price(100.0, 600.0)]


def test_a_run_of_no_time_costs_the_fee() -> None:
    assert FaasPricing.opencatp().price(0.0, 5000.0) == 2e-7


@given(ms=st.floats(0, 1e6), cpu=MEMORY, cpu_inst=INSTANT, gpu=MEMORY, gpu_inst=INSTANT, per_tier=st.booleans())
def test_arrays_and_floats_agree_to_the_last_bit(
    ms: float, cpu: float, cpu_inst: float, gpu: float, gpu_inst: float, per_tier: bool
) -> None:
    pricing = FaasPricing(per_tier=per_tier)
    scalar = pricing.price(ms, cpu, cpu_inst, gpu, gpu_inst)
    assert scalar == pricing.per_run + ms * pricing.rate_per_ms(cpu, cpu_inst, gpu, gpu_inst)
    assert pricing.price(np.array([ms]), np.array([cpu]), cpu_inst, gpu, np.array([gpu_inst])).tolist() == [scalar]


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, -math.inf])
def test_impossible_runs_have_no_price(bad: float) -> None:
    pricing = FaasPricing.opencatp()
    for args in ((bad, 100.0), (10.0, bad), (10.0, 100.0, 0.0, bad)):
        with pytest.raises(InvalidProfile, match="expected"):
            pricing.price(*args)
        with pytest.raises(InvalidProfile, match="expected"):
            pricing.price(*(np.array([arg]) for arg in args))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_instant_memory_may_be_negative_but_must_be_a_number(bad: float) -> None:
    pricing = FaasPricing.opencatp()
    assert pricing.price(10.0, 100.0, -5.0) < pricing.price(10.0, 100.0)
    with pytest.raises(InvalidProfile, match="instant memory"):
        pricing.price(10.0, 100.0, bad)
    with pytest.raises(InvalidProfile, match="instant memory"):
        pricing.price(np.array([10.0]), 100.0, np.array([bad]))


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_price_lists_are_checked(bad: float) -> None:
    with pytest.raises(ConfigError, match="cpu_rate of the 128 MB tier"):
        FaasPricing(tier_mb=(128,), cpu_rate=(bad,))
    with pytest.raises(ConfigError, match="ascending"):
        FaasPricing(tier_mb=(2, 1), cpu_rate=(1.0, 1.0))
    with pytest.raises(ConfigError, match="one rate per tier"):
        FaasPricing(tier_mb=(1, 2), cpu_rate=(1.0,))


def test_lambda_bills_memory_from_128_mb_whole_milliseconds_and_requests() -> None:
    pricing = ListPricing.aws_lambda()
    assert pricing.price(1000.0, 1024.0) == pytest.approx(2e-7 + 1.66667e-5)
    assert pricing.price(0.2, 1.0, 3.0) == pytest.approx(2e-7 + 1.66667e-8 * 128 / 1024)
    assert pricing.price(0.0, 1024.0) == 2e-7
    assert pricing.rate_per_ms(600.0, 424.0) == pricing.rate_per_ms(1024.0)
    with pytest.raises(InvalidProfile, match="none, since it has no GPUs, got 1 MB"):
        pricing.price(1.0, 128.0, 0.0, 1.0)


def test_modal_bills_a_core_memory_and_the_cheapest_gpu_that_holds_the_memory() -> None:
    pricing = ListPricing.modal()
    assert pricing.price(2000.0, 4096.0) == pytest.approx(2 * (1.31e-5 + 4 * 2.22e-6))
    for gpu_gb, per_s in ((1, 0.000164), (16, 0.000164), (17, 0.000222), (48, 0.000694), (141, 0.001261)):
        rate = pricing.rate_per_ms(1024.0, 0.0, 512.0, 1024.0 * gpu_gb - 512.0)
        assert rate == pytest.approx((1.31e-5 + 2.22e-6 + per_s) / 1000)
    with pytest.raises(InvalidProfile, match="at most 144384 MB on one GPU"):
        pricing.rate_per_ms(0.0, 0.0, 200_000.0)


@pytest.mark.parametrize("name", PRICINGS)
def test_a_world_bills_by_the_list_that_its_scenario_names_and_initialisation_by_those_of_2026(name: str) -> None:
    world = load_scenario("marketplace").model_copy(update={"pricing": name}).build()
    pricing, candidate = PRICINGS[name](), world.candidates(0)[0]
    profile = candidate.profile
    memory = (profile.cpu_cons_mb, profile.cpu_inst_mb, profile.gpu_cons_mb, profile.gpu_inst_mb)
    assert (candidate.fee, candidate.rate_per_s) == (pricing.per_run, 1000.0 * pricing.rate_per_ms(*memory))
    assert world.bill_cold_start is (name in ("aws-lambda-2026", "modal-2026"))


def test_a_list_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="ascending"):
        ListPricing("list", 0.0, 0.0, gpus=((2.0, 1.0), (1.0, 2.0)))
    with pytest.raises(ConfigError, match=r"ListPricing\.per_gb_s"):
        ListPricing("list", 0.0, -1.0)
