"""BTP: budget-constrained tool learning with planning (ACL 2024 Findings)."""

from costgym.agents.btp.plan import BtpSettings, expected_value, frequency_cap, plan_tool_usage

__all__ = ["BtpSettings", "expected_value", "frequency_cap", "plan_tool_usage"]
