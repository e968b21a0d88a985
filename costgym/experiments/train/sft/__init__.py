"""Supervised fine-tuning of tool-calling language models on text episodes: `costgym train sft`."""
