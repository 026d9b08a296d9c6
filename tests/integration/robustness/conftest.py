"""What tests of servers under stress share."""

import pytest

from faulty_clients import Witness
from programs import Server, ends_well


@pytest.fixture(scope="module")
def witness(server):
    return Witness(server)


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    """A server without faults, whose images are the truth."""
    yield from ends_well(Server(tmp_path_factory.mktemp("twin"), "--backend", "cpu"))
