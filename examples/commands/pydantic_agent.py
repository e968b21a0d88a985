"""A pydantic-ai agent over MCP: `costgym rank -- python examples/commands/pydantic_agent.py`.

Needs `pip install "pydantic-ai-slim[openai,mcp]"`.
"""

import asyncio
import os

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

SYSTEM = "Answer with the help of tools. Call finish with every fact that was asked for."


async def main() -> None:
    """Play the episode whose task and addresses stand in the environment."""
    tools = MCPToolset(os.environ["COSTGYM_MCP_URL"])
    agent = Agent("openai-chat:any", instructions=SYSTEM, toolsets=[tools])
    async with agent:
        result = await agent.run(os.environ["COSTGYM_TASK"])
    print(" ".join(str(result.output).split()))


asyncio.run(main())
