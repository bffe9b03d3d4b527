"""The documentation site: `python -m sphinx -W docs build/site` writes it to
`build/site`, and what was run to caches beside it.

Sphinx and MyST-NB, because MyST reads the Markdown pages as they are, MyST-NB runs the programs of
the tutorials and guides at each build and stops at an error, and Sphinx makes the reference from
docstrings, with warnings as errors. Nothing is fetched, neither at the build nor by a reader's
browser. The `>>>` examples of other pages and of docstrings are run by `_ext/examples.py`.
"""

import sys
from importlib.metadata import version as _version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "drjit-numba"
author = copyright = "the authors of drjit-numba"
version = release = _version("drjit-numba")
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "details",
    "examples",
    "gallery",
    "reference_pages",
    "reports",
]

html_theme = "furo"
html_title = "drjit-numba"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
templates_path = []
exclude_patterns = ["_ext", "_build"]
pygments_style, pygments_dark_style = "friendly", "monokai"

# `name` in a docstring is code, as in Markdown.
default_role = "literal"
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
napoleon_google_docstring, napoleon_numpy_docstring = True, False
copybutton_prompt_text, copybutton_prompt_is_regexp = r">>> |\.\.\. ", True

myst_enable_extensions = ["colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # a page is run again when its programs change
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
