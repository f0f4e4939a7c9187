"""The site: `make docs` builds it into docs/_build/html, without a network."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from figures import save_display  # noqa: E402

import calibrant  # noqa: E402

project = "calibrant"
author = "The calibrant authors"
copyright = "The calibrant authors"
version = release = calibrant.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "figures",  # drawn when the site is built
    "outputs",  # what the code of a page prints
    "docstrings",  # plain text to reStructuredText
    "reference",  # one page per public module, of every name it lists
    "mathml",  # formulas as MathML, which browsers draw themselves
    "generated",  # tables of methods, metrics, tests, ... read from the code
]
exclude_patterns = ["_build", "_ext", "examples/README.rst"]
templates_path = ["_templates"]
default_role = "code"
smartquotes = False  # quotes belong to code more often than to speech

# Pages are Markdown.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]

# The reference comes from docstrings.
autosummary_imported_members = True
autodoc_typehints = "none"
_ROUTING = ("fit", "score", "predict", "predict_proba", "predict_log_proba", "decision_function", "partial_fit")
autodoc_default_options = {
    "exclude-members": ", ".join(["get_metadata_routing", *(f"set_{name}_request" for name in _ROUTING)])
}
autodoc_member_order = "bysource"

# The gallery: scripts of examples/, each run when the site is built.
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": "/",
    "ignore_pattern": r"__init__\.py",
    "image_scrapers": ("matplotlib", save_display),
    "ignore_repr_types": r"calibrant\.plots",  # shown by their picture
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 60,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}

# A newer pandas: the warning would be shown with the path of this machine.
warnings.filterwarnings("ignore", message="PySpark does not yet fully support")

html_theme = "pydata_sphinx_theme"
html_title = "calibrant"
html_static_path = ["_static"]
html_favicon = "_static/icon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the browser wishes
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": [], "choosing": []}
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
