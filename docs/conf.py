"""Settings of the site: `make docs` builds it into `build/docs`."""

import inspect
import re
import sys
from pathlib import Path

import costgym

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "costgym"
author = "The costgym developers"
copyright = author
version = release = costgym.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "command_line",
    "environments",
    "tables",
]
exclude_patterns = ["extensions"]
nitpicky = True
# types in signatures are of other projects, whose inventories need a network,
# or inner ones; what pages name is `py:obj`
nitpick_ignore_regex = [("py:(?!obj).*", ".*")]
show_warning_types = True

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = (
    "off"  # tutorials are stored with their outputs, see `make notebooks`
)
napoleon_custom_sections = [("Attributes", "params_style")]
default_role = "code"  # docstrings quote names in single backticks
# cells of notebooks call commands with `!`
suppress_warnings = ["misc.highlighting_failure"]
autodoc_member_order = "bysource"
# so that the site is built from the extra `docs` alone
autodoc_mock_imports = ["numba", "stable_baselines3"]
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "costgym"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_theme_options = {"source_directory": "docs/", "navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def link_results(app, docname, source):
    """Links to tables among the results are pages of the site, or files."""
    text = source[0]
    if docname == "results/papers":
        tables = r"\]\(\.\./\.\./benchmarks/results/reproduce/(\w+\.md)\)"
        text = re.sub(tables, r"](\1)", text)
    files = r"\]\(((?:\.\./)+benchmarks/[\w./-]+\.md)\)"
    source[0] = re.sub(files, r"](path:\1)", text)


def show_navigation(app, docname, source):
    """Lists of pages stand in comments, which a checkout does not show."""
    source[0] = re.sub(
        r"^<!-- navigation\n(.*?)^-->$", r"\1", source[0], flags=re.S | re.M
    )


def shorten_signature(app, what, name, obj, options, signature, returns):
    """Leave only names in the signature of a class with many settings."""
    if (
        what == "class"
        and signature
        and ("<factory>" in signature or len(signature) > 600)
    ):
        names = [
            parameter
            for parameter in inspect.signature(obj).parameters
            if not parameter.startswith("_")
        ]
        return f"({', '.join(names)})", returns
    return None


def setup(app):
    app.connect("source-read", link_results)
    app.connect("source-read", show_navigation)
    app.connect("autodoc-process-signature", shorten_signature)
