"""The figure of the benchmarks in README.md."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_figure_shows_the_present_tables_and_their_worst_rows():
    module = runpy.run_path(str(ROOT / "benchmarks" / "figure.py"))
    made = module["current"]()
    saved = (ROOT / "docs" / "images" / "benchmarks.svg").read_text()
    assert made == saved, "run python benchmarks/figure.py"
    assert saved.count("<rect") > 10
    found = module["ratios"]((ROOT / "docs" / "benchmarks.md").read_text())
    worst = sorted(found, key=found.__getitem__)[-5:]
    assert set(worst) <= set(module["ROWS"])
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"![{module['summary'](found)}](docs/images/benchmarks.svg)" in readme
