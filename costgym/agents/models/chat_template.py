"""A chat template with tools and calls, for models whose own template ignores them.

It writes ChatML. The system message is followed by the functions, one a line, and a call is JSON in `<tool_call>` tags, the
form that `read_calls` reads and that trainers parse with `RESPONSE_TEMPLATE`. The prefix of a conversation is the same
whatever follows it, and the assistant's own tokens are marked for trainers that ask for them.
"""

from typing import Any

CHAT_TEMPLATE = """\
{%- set first = 1 if messages and messages[0]['role'] == 'system' else 0 -%}
{%- if first or tools -%}
{{- '<|im_start|>system\\n' -}}
{%- if first -%}{{- messages[0]['content'] -}}{%- endif -%}
{%- if tools -%}
{{- '\\n\\nFunctions:' -}}
{%- for tool in tools -%}
{%- set function = tool['function'] if 'function' in tool else tool -%}
{{- '\\n' + function['name'] + '(' -}}
{%- set properties = function['parameters']['properties'] or {} -%}
{%- for name in function['parameters']['required'] or [] -%}
{{- (', ' if not loop.first else '') + name + ': ' + (properties[name]['type'] | string) -}}
{%- endfor -%}
{{- '): ' + (function['description'] | replace('\\n', ' ')) -}}
{%- endfor -%}
{{- '\\n\\nA call: <tool_call>{"name": NAME, "arguments": {...}}</tool_call>' -}}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages[first:] -%}
{%- if message['role'] == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}
{%- generation -%}
{{- message['content'] or '' -}}
{%- for call in message['tool_calls'] or [] -%}
{%- set called = call['function'] if 'function' in call else call -%}
{{- '<tool_call>{"name": ' + (called['name'] | tojson) + ', "arguments": ' -}}
{{- called['arguments'] if called['arguments'] is string else called['arguments'] | tojson -}}
{{- '}</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>' -}}
{%- endgeneration -%}
{{- '\\n' -}}
{%- else -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}
"""Template for parsing a reply, in the form of transformers' `response_template`."""
