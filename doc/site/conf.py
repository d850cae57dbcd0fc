"""How Sphinx makes the pages. tools/site.sh lays their sources out first."""
import os

from pygments.lexers.special import TextLexer

project = "Shoal"
author = "The Shoal developers"
copyright = author
release = version = os.environ["SHOAL_VERSION"]
extensions = ["myst_parser", "breathe"]
html_theme = "furo"
html_title = f"Shoal {release}"
breathe_projects = {"shoal": os.environ["SHOAL_DOXYGEN"]}
breathe_default_project = "shoal"
breathe_default_members = ("members",)
breathe_domain_by_extension = {"h": "c"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["include"]


def setup(app):
    app.add_lexer("output", TextLexer)
