"""Links to the documentation, in what notebooks show of estimators."""

import sys

__all__ = ["DocumentationLinkMixin"]

DOCUMENTATION = ""  # the site's address; without one there are no links


class DocumentationLinkMixin:
    """A link from scikit-learn's HTML representation to the page of a class."""

    def _get_doc_link(self):
        """The address of the page of the class, or "" if there is none."""
        name = type(self).__name__
        if not DOCUMENTATION or type(self).__module__.split(".")[0] != "sk_stormc":
            return ""
        in_package = hasattr(sys.modules["sk_stormc"], name)
        module = "sk_stormc" if in_package else "sk_stormc.preprocessing"
        return f"{DOCUMENTATION}/api/generated/{module}.{name}.html"
