"""What the site adds to pages and docstrings: the gallery of examples, tables of parameters, and
related names. None of it needs Sphinx.
"""

import importlib
import re
import sys
from pathlib import Path

import pytest

import drjit as dr

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS / "_ext"))
details, gallery = importlib.import_module("details"), importlib.import_module("gallery")


def entry(path: str):
    return details.entries()[path]


# ---- The gallery


def test_the_gallery_has_every_example():
    names = {f.stem for f in gallery.FOLDER.glob("*.py")} - gallery.OTHERS
    pages = gallery.pages()
    assert len(names) > 15 and pages.keys() == names | {"index"}
    assert set(re.findall(r":doc:`[^<`]+ <(\w+)>`", pages["index"])) == names
    assert set(re.findall(r"^   (\w+)$", pages["index"].partition("toctree")[2], re.M)) == names
    for name in names:
        assert f"{gallery.FOLDER.name}/{name}.py\n" in pages[name]


def test_reports_are_of_programs_that_there_are_and_pages_link_to_all():
    reports = importlib.import_module("reports")
    assert all(program.is_file() for _, program, _ in reports.PROGRAMS.values())
    texts = [*gallery.pages().values(), *(p.read_text() for p in DOCS.rglob("*.md"))]
    linked = re.findall(r"[:{]report[:}]`[^<`]+ <(\w+)>`", "".join(texts))
    assert {*linked} == {*reports.PROGRAMS}


def test_pictures_of_the_gallery_are_those_that_there_are(tmp_path, monkeypatch):
    files = [f for f in gallery.PICTURES.rglob("*") if f.is_file()]
    assert len(files) > 20 and sum(f.stat().st_size for f in files) <= 700 * 1024
    for found in files:
        assert found.stem in gallery.pages() and found.suffix[1:] in gallery.FORMATS
        assert found.stat().st_size <= 60 * 1024
    monkeypatch.setattr(gallery, "PICTURES", tmp_path / "docs" / "images")
    monkeypatch.setattr(gallery, "DOCS", tmp_path / "docs")
    gallery.PICTURES.mkdir(parents=True)
    assert ".. image::" not in "".join(gallery.pages().values())
    assert "images/gallery.jpg" in "".join(gallery.row(["fluid", "mandelbrot"]))
    (gallery.PICTURES / "fluid.gif").touch()
    (gallery.PICTURES / "mandelbrot.jpg").touch()
    (gallery.PICTURES / "cards").mkdir()
    (gallery.PICTURES / "cards" / "mandelbrot.jpg").touch()
    pages = gallery.pages()
    assert pages["index"].count(".. image:: ../images/fluid.gif") == 1
    assert ".. image:: ../images/fluid.gif" in pages["fluid"]
    assert "image:: ../images/cards/mandelbrot.jpg" in pages["index"]
    assert "image:: ../images/mandelbrot.jpg" in pages["mandelbrot"]
    assert pages["index"].count("container:: card bare") == len(pages) - 3
    row = "\n".join(gallery.row(["fluid", "mandelbrot", "fresnel"]))
    assert "image:: ./images/fluid.gif" in row and "<gallery/fluid>" in row
    assert "image:: ./images/cards/mandelbrot.jpg" in row and "fresnel" not in row


def test_a_text_is_no_markup():
    assert gallery.escaped("a*b, |c|, `x*y_`, f_ g_h") == r"a\*b, \|c\|, `x*y_`, f\_ g_h"
    assert gallery.paragraph("    run it")[0] == ".. code-block:: text"


def test_the_row_of_the_front_page_names_examples():
    names = re.search(r"^\.\. pictures:: (.*)$", (DOCS / "index.md").read_text(), re.M)[1].split()
    assert names and set(names) <= gallery.pages().keys()


# ---- The reference


def test_a_table_of_parameters_has_what_is_said_of_them():
    rows = {row[0]: row[1:] for row in details.rows(entry("drjit.opt.Adam"))}
    assert [*rows][:3] == ["`lr`", "`params`", "`beta_1`"]
    assert rows["`beta_1`"] == ("`float`", "`0.9`", "")
    assert rows["`amsgrad`"][2].startswith("Divide by the largest v so far")
    assert rows["`lr`"][0] == "`float` or array"  # said by Optimizer, to which it refers
    assert rows["`lr`"][2].startswith("The learning rate")
    rows = {row[0]: row[1:] for row in details.rows(entry("drjit.gather"))}
    assert rows["`index`"][0] == "integers" and rows["`active`"][:2] == ("mask", "`True`")
    assert rows["`mode`"][2] == "`mode` concerns the adjoint only."
    rows = {row[0]: row[1:] for row in details.rows(entry("drjit.sum"))}
    assert rows["`keepdims`"][2] == "`keepdims` keeps reduced axes of tensors with size 1."
    assert details.rows(entry("drjit.sin")) == details.rows(entry("drjit.ADMode")) == []


def test_a_table_stands_for_the_section_of_arguments():
    text = "Does.\n\nArguments:\n    n: how many\n        there are.\n\nRaises:\n    E: no.\n"
    lines = details.extended(text.splitlines(), ["TABLE", ""])
    assert lines == ["Does.", "", "TABLE", "", "Raises:", "    E: no."]
    assert details.listed(text) == {"n": "How many there are."}


def test_related_names_are_those_of_the_topic():
    def related(path):
        return [p.rpartition(".")[2] for p in details.related(entry(path))]

    assert related("drjit.sum") == ["reduce", "sum_nested", "softmax"]
    assert related("drjit.sin") == ["asin", "asinh", "sincos", "sincosh", "sinh"]
    assert related("drjit.scatter_add")[0] == "scatter_reduce"
    assert related("drjit.opt.SGD") == ["Optimizer"]
    assert "eval" not in related("drjit.custom")  # a method


@pytest.mark.parametrize("path", ["drjit.reduce", "drjit.while_loop", "drjit.nn.Linear"])
def test_what_is_referred_to_is_in_the_reference(path):
    text = "\n".join(details.see_also(entry(path)))
    for link in re.findall(r"`~([\w.]+)`", text):
        module, _, name = link.rpartition(".")
        assert hasattr(importlib.import_module(module), name)
    assert dr.reduce is entry("drjit.reduce").value
