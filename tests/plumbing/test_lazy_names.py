import subprocess
import sys

import pytest

import skewless
import skewless.spark

HEAVY = {"bokeh", "numba", "numpy", "pandas", "pyarrow", "pyspark", "scipy", "skewless.strategies"}


@pytest.mark.parametrize("module", ["skewless", "skewless.spark", "skewless.cli"])
def test_what_takes_long_to_import_is_imported_when_it_is_needed(module):
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, text=True, stdout=subprocess.PIPE
    )
    assert not HEAVY & set(loaded.stdout.split())


@pytest.mark.parametrize("package", [skewless, skewless.spark], ids=lambda one: one.__name__)
def test_every_public_name_is_there_and_no_module_hides_it(package):
    if package is skewless.spark:
        pytest.importorskip("pyspark")
    for name in package.__all__:
        found = getattr(package, name)
        assert type(found).__name__ != "module"
        assert getattr(found, "__name__", name) == name
    assert dir(package) == sorted(package.__all__)


def test_a_name_that_does_not_exist_is_refused_as_python_does():
    with pytest.raises(AttributeError, match="module 'skewless' has no attribute 'rout'"):
        _ = skewless.rout
