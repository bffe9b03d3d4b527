"""The table of mistakes with which `support/mutate.py` checks the other tests."""

from collections import Counter
from pathlib import Path

from mutate import ROOT, TABLE, Mutation, mutations, place

ROWS = [*mutations(TABLE.read_text())]


def test_there_are_hundreds_of_mistakes_each_once():
    assert len(ROWS) >= 200
    assert not [str(m) for m, count in Counter(ROWS).items() if count > 1]


def test_each_snippet_occurs_once_in_its_file():
    texts = {file: (ROOT / file).read_text() for file in {m.file for m in ROWS}}
    assert not [(str(m), n) for m in ROWS if (n := m.places(texts[m.file])) != 1]


def test_each_mistake_changes_the_file_and_leaves_it_valid():
    for m in ROWS:
        text = (ROOT / m.file).read_text()
        assert m.applied(text) != text, m
        compile(m.applied(text), m.file, "exec")


def test_the_tests_that_are_named_exist():
    names = {w for m in ROWS for w in m.tests.partition(" -k ")[0].split()}
    assert all(Path(ROOT, place(w).partition("::")[0]).is_file() for w in names)


def test_snippets_of_several_lines_keep_the_indentation():
    m = Mutation("file", ("if a:", "b"), ("if not a:", "c"), "")
    assert m.applied("x\n    if a:\n        b\n") == "x\n    if not a:\n        c\n"
