"""Colab: installing the package there changes nothing, and a student version runs to its first blank."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import colab_check  # noqa: E402

PINS = colab_check.pins()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("needed", PROJECT["dependencies"])
def test_colab_has_what_the_package_needs(needed):
    requirement = Requirement(needed)
    assert PINS[colab_check.normal(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("python", ["3.12", "3.13"])
def test_colabs_python_is_one_of_ours(python):
    assert python in Requirement(f"python{PROJECT['requires-python']}").specifier


def test_the_kernel_of_colab_is_not_asked_to_be_newer():
    """ipywidgets 8 would replace what Colab's own pages talk to."""
    names = {Requirement(needed).name.lower() for needed in PROJECT["dependencies"]}
    assert not names & {"ipywidgets", "ipython", "ipykernel"}


@pytest.mark.slow
def test_a_student_version_runs_to_its_first_blank_with_nothing_added(tmp_path):
    """Needs the package index. Torch is the CPU build of requirements.txt in place of Colab's."""
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "colab_check.py"), str(tmp_path / "colab")],
                          text=True, stdout=subprocess.PIPE)  # fmt: skip
    assert done.returncode == 0, done.stdout
    report = json.loads(done.stdout)
    assert set(report["off the list"]) <= {"torch", "setuptools"} and not report["changed"]
    assert report["ran"]["cells"][-1] == "check-rms_norm"
