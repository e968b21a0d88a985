"""Readers of published data folders: ToolBench, StableToolBench, AnyToolBench, MGToolBench and ToolDEER."""
