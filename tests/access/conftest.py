"""An account in which all is well, anew for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.rehearsal.front import Server
from muster.rehearsal.principals import User
from tests.access.account import Account, opened


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Account, Server, User]]:
    with opened(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def account(whole: tuple[Account, Server, User]) -> Account:
    return whole[0]


@pytest.fixture
def server(whole: tuple[Account, Server, User]) -> Server:
    return whole[1]


@pytest.fixture
def user(whole: tuple[Account, Server, User]) -> User:
    return whole[2]
