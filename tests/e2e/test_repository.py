"""`make repo` sets the public address everywhere."""
from __future__ import annotations

import subprocess

import pytest

from check_site import repository_of
from set_repository import renamed, set_repository

CONFIG = "title: x\nrepository:\n  # the place\n  url: https://github.com/OWNER/REPO\n  branch: main\n"


@pytest.fixture
def checkout(tmp_path):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "_config.yml").write_text(CONFIG)
    (tmp_path / "README.md").write_text("git+https://github.com/OWNER/REPO@v0.1.0 and https://owner.github.io/REPO/")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff OWNER/REPO")
    return tmp_path


def test_address_changes_everywhere_and_again(checkout):
    changed = set_repository(checkout, "https://github.com/ada/bytes-890.git")
    assert {path.name for path in changed} == {"_config.yml", "README.md"}
    assert repository_of(checkout) == "ada/bytes-890"
    assert (checkout / "README.md").read_text() == \
        "git+https://github.com/ada/bytes-890@v0.1.0 and https://ada.github.io/bytes-890/"
    set_repository(checkout, "https://github.com/grace/course/")
    assert "ada" not in (checkout / "README.md").read_text()


def test_longer_names_are_left_alone():
    text = "github.com/ada/bytes github.com/ada/bytes-extra github.com/x-ada/bytes"
    assert renamed(text, "ada/bytes", "a/b") == "github.com/a/b github.com/ada/bytes-extra github.com/x-ada/bytes"


@pytest.mark.parametrize("wrong", ["", "ada/bytes", "https://gitlab.com/ada/bytes", "https://github.com/ada"])
def test_other_addresses_are_refused(checkout, wrong):
    with pytest.raises(SystemExit, match="must look like"):
        set_repository(checkout, wrong)
