"""Reproduce CATP-LLM's tables: policies trained here beside prompted planners, on unseen tasks and samples."""
