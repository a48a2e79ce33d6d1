"""The site's configuration: `docs/build.sh` builds it."""

import inspect
import re
import sys
import tomllib
import warnings
from pathlib import Path

import matplotlib
from jupyter_client import KernelManager
from sklearn.exceptions import ConvergenceWarning
from sphinx.util.inspect import stringify_signature
from sphinx_gallery.sorting import ExplicitOrder

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("portfolios", "maps", "values", "solvers", "large")  # of the gallery
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from _inventories import write_inventories  # noqa: E402
from _pages import pages_without_code  # noqa: E402
from _pictures import draw_all, write_map  # noqa: E402

import sk_stormc  # noqa: E402
import sk_stormc.engine  # noqa: E402

matplotlib.use("agg")

project = "sk_stormc"
author = "the sk_stormc developers"
copyright = author
version = release = sk_stormc.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # formulas are shown without a network
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxext.opengraph",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "_templates",
    "auto_examples/**/*.ipynb",
    "auto_examples/**/*.py",
]
templates_path = ["_templates"]
default_role = "py:obj"

URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "urls"
]
html_theme = "pydata_sphinx_theme"
html_title = f"sk_stormc {version}"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["llms.txt"]  # for programs that read the site
html_search_scorer = str(Path(__file__).parent / "_static" / "search_scorer.js")
html_show_sourcelink = False
html_context = {
    "edit_page_url_template": URLS["Source"] + "/edit/main/docs/{{ file_name }}"
}
html_theme_options = {
    "logo": {"text": html_title, "alt_text": "sk_stormc, to the landing page"},
    "use_edit_page_button": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc", "edit-this-page"], "index": []},
    "icon_links": [
        {"name": "Source", "url": URLS["Source"], "icon": "fa-solid fa-code-branch"}
    ],
}
html_sidebars = {name: [] for name in ("index", "install")}
ogp_site_url = URLS["Documentation"]
ogp_image = "images/cards/card.png"
ogp_social_cards = {"enable": False}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_custom_formats = {".md": "_pages.read_page"}
nb_execution_mode = "force"
# no process is started for them
nb_execution_excludepatterns = pages_without_code(ROOT / "docs")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_output_stderr = "remove"  # progress bars, and warnings that the text explains
nb_merge_streams = True  # what a block prints is one box
if hasattr(
    KernelManager, "transport_encryption"
):  # without it, each kernel that runs a page prints a warning
    KernelManager.transport_encryption.default_value = "auto"

autosummary_generate = sorted(
    f"api/{path.name}" for path in (ROOT / "docs" / "api").glob("*.rst")
)
intersphinx_mapping = write_inventories(ROOT / "docs" / "_build" / "inventories")
autodoc_typehints = "none"  # the parameters' descriptions have them, in words
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "backreferences_dir": "api/backreferences",
    "doc_module": ("sk_stormc",),
    "subsection_order": ExplicitOrder([f"../examples/{name}" for name in SECTIONS]),
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_",),
    "ignore_repr_types": r"sk_stormc\.(?!compare)|sklearn",
    "matplotlib_animations": False,
    "min_reported_time": 10_000,
    "write_computation_times": False,
    "abort_on_example_error": True,
}
# sphinx-gallery keeps classes and functions in its configuration, which cannot be
# pickled
suppress_warnings = ["config.cache"]
warnings.filterwarnings("ignore", category=ConvergenceWarning)

FORMULA = re.compile(r"(``.+?``|`[^`]+`)|(\||(?<=\w)_(?!\w)|\*+(?=\w))")


def escape_formulas(app, what, name, obj, options, lines):
    """Docstrings have |x|, w_ and the like as plain text, where reStructuredText means
    something else by them."""
    in_example = in_math = False
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (
            in_example and bool(line.strip())
        )
        in_math = line.startswith(".. math::") or (in_math and line[:1] in ("", " "))
        if not (in_example or in_math):
            # of parameters, which numpydoc escapes itself
            names = re.match(r"(\s*[\w, *]+ : )?", line)[0]
            lines[number] = names + FORMULA.sub(
                lambda found: found[1] or "\\" + found[2], line[len(names) :]
            )


# what its users call; the rest are hooks for authors
OF_A_SOLVER = ("get_params", "set_params", "from_theory")
HOOKS_OF_ESTIMATORS = ("recorded", "solves_itself")  # which `compare_solvers` asks for


def hide_hooks(app, what, name, obj, skip, options):
    """On the page of a method or an estimator, leave out what only authors need."""
    thing = getattr(sk_stormc, app.env.docname.rpartition(".")[2], None)
    if not isinstance(thing, type):
        return None
    is_method = (
        issubclass(thing, sk_stormc.engine.CompositionalSolver)
        and name not in OF_A_SOLVER
    )
    return True if is_method or name in HOOKS_OF_ESTIMATORS else None


def show_arguments(app, what, name, obj, options, signature, returns):
    """The arguments of a class that has a `__new__` which passes them on."""
    if what == "class" and (signature or "").startswith("(*args"):
        return stringify_signature(inspect.signature(obj), show_annotation=False), None


def make_pictures(app):
    """What pages show besides the output of their own blocks."""
    draw_all(f"{app.srcdir}/images/cards")
    write_map(f"{app.srcdir}/guide/tables.md", f"{app.srcdir}/_static/pages")


def setup(app):
    """Draw pictures first, and escape before numpydoc reads the docstrings."""
    app.connect("builder-inited", make_pictures)
    app.connect("autodoc-process-docstring", escape_formulas, priority=100)
    app.connect("autodoc-skip-member", hide_hooks)
    app.connect("autodoc-process-signature", show_arguments)
