"""Small ToolBench folders for tests: records, and a way to write them."""

import json
from pathlib import Path


def api(tool="Sky Watch", name="Forecast", category="Weather", **more):
    return {
        "category_name": category,
        "tool_name": tool,
        "api_name": name,
        "api_description": "What the weather will be.",
        "required_parameters": [{"name": "city", "type": "STRING", "description": "", "default": "Oslo"}],
        "optional_parameters": [{"name": "days", "type": "NUMBER", "description": "", "default": "3"}],
        "method": "GET",
        **more,
    }


def query(number=1, **more):
    apis = [api(), api(name="Wind", template_response={"wind": {"speed": "float", "unit": "str"}})]
    return {
        "query": "How is the weather in Oslo?",
        "query_id": number,
        "api_list": apis,
        "relevant APIs": [["Sky Watch", "Forecast"], ["Sky Watch", "Wind"]],
        **more,
    }


def write(path: Path, value) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path
