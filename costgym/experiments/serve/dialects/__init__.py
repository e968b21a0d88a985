"""The interfaces of language models that clients speak: OpenAI's chat completions and responses, Anthropic's messages."""
