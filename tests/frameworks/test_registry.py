"""Frameworks by name: two that are built in, others from whoever installed them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.errors import MusterError
from muster.frameworks.dask import Dask
from muster.frameworks.pytorch import PyTorch
from muster.frameworks.registry import Known, framework, names
from tests.harness import PLUGINS

pytestmark = pytest.mark.unit


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution that names frameworks, and the folder that its modules go into."""
    info = tmp_path / "odd_frameworks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-frameworks\nVersion: 1.0\n")
    points = ("broken = odd_broken:Broken", "absent = odd_other:Absent", "other = odd_other:Other")
    (info / "entry_points.txt").write_text("\n".join(["[muster.frameworks]", *points]))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("odd_broken", "odd_other"):
        sys.modules.pop(name, None)


def test_the_built_in_ones_are_found_by_name() -> None:
    assert isinstance(framework("dask"), Dask)
    assert isinstance(framework("pytorch"), PyTorch)


def test_one_of_a_plugin_is_found_by_its_entry_point_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGINS))
    assert {"dask", "plain", "pytorch"} <= set(names())
    assert type(framework("plain")).__name__ == "Plain"


def test_an_unknown_name_is_an_error_that_lists_those_there_are() -> None:
    with pytest.raises(MusterError, match=r"no framework is called 'torch'") as caught:
        framework("torch")
    assert "dask, " in caught.value.fix
    assert Known().facts("torch") is None


def test_the_jobs_checks_learn_what_a_framework_can_do() -> None:
    facts = Known().facts("dask")
    assert facts
    assert facts.elastic
    assert facts.roles == {"main", "worker"}
    assert {"nthreads", "nprocs", "death_timeout"} <= facts.options.keys()


def test_a_plugin_that_cannot_be_imported_is_named_with_its_error(plugin: Path) -> None:
    (plugin / "odd_broken.py").write_text("import a_module_that_is_not_there\n")
    told = r"framework broken \(odd_broken:Broken\) cannot be loaded: ModuleNotFoundError: .*a_module_that_is_not_there"
    with pytest.raises(MusterError, match=told):
        framework("broken")


def test_a_plugin_whose_class_is_not_there_is_named_too(plugin: Path) -> None:
    (plugin / "odd_other.py").write_text("class Other: pass\n")
    with pytest.raises(MusterError, match=r"framework absent \(odd_other:Absent\) cannot be loaded: AttributeError"):
        framework("absent")


def test_a_plugin_that_is_no_framework_is_told_so(plugin: Path) -> None:
    (plugin / "odd_other.py").write_text("class Other: pass\n")
    with pytest.raises(MusterError, match=r"odd_other:Other is not a muster\.frameworks\.base\.Framework"):
        framework("other")
