"""Builds the package. setup.cfg has the metadata, except for what depends on where the repository
is published, `DRJIT_REPOSITORY` (such as https://github.com/owner/name): its addresses, and
README.md as a package index shows it, where links and pictures need them.
"""

import os
import re
from pathlib import Path

_LINK = re.compile(r"(?<=\]\()(?!https?:|#)[^)\s]+(?=\))")
_PICTURES = (".jpg", ".png", ".svg")


def readme(repository: str) -> str:
    """Returns README.md with the addresses of what it refers to in the repository."""
    text = Path(__file__).with_name("README.md").read_text("utf-8")

    def address(link: re.Match[str]) -> str:
        kind = "raw" if link[0].endswith(_PICTURES) else "blob"
        return f"{repository}/{kind}/main/{link[0]}"

    return _LINK.sub(address, text) if repository else text


if __name__ == "__main__":
    from setuptools import setup

    repository = os.environ.get("DRJIT_REPOSITORY", "").rstrip("/")
    pages = {
        "Source": "",
        "Documentation": "/tree/main/docs",
        "Examples": "/tree/main/drjit_examples",
        "Issues": "/issues",
    }
    setup(
        long_description=readme(repository),
        long_description_content_type="text/markdown",
        project_urls={name: repository + page for name, page in pages.items() if repository},
    )
