"""TLS between Dask's parties, as real processes on loopback, with certificates made here.

Two authorities are made: "own", which scheduler, worker and client know, and "other", which they don't.
"""

import shutil
import socket

import dask
import numpy as np
import pytest
from clusters import certificates
from processes import Fleet

from scalemani import Isomap, load
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.demo import swiss_roll
from scalemani.errors import ScalemaniError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl, which is not here"),
]

FIT = ("--neighbors", "8", "--quiet")


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """Directories of PEM files by name."""
    folder = tmp_path_factory.mktemp("authorities")
    found = {name: folder / name for name in ("own", "other")}
    for each in found.values():
        assert certificates.make_certificates(each)
    return found


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    path = tmp_path_factory.mktemp("points") / "roll.npy"
    np.save(path, swiss_roll(400, random_state=0).points)
    return path


@pytest.fixture(scope="module")
def fleet(authorities, tmp_path_factory):
    """A scheduler and a worker that speak TLS alone."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), 1, **certificates.environment(str(authorities["own"])))
    made.address = made.address.replace("tcp://", "tls://")
    with made:
        yield made


def outcome(party):
    """Exit code and lines on stderr: a client that hangs when it is thrown away says so in more than one."""
    code = party.wait(120)
    return code, party.errors.read_text().splitlines()


def client_of(fleet, environment, address, store, points):
    """A fit with other settings of Dask's than the fleet's."""
    theirs = fleet.environment, fleet.address
    plain = {name: value for name, value in fleet.environment.items() if "__TLS__" not in name}
    plain.pop("DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION")
    fleet.environment, fleet.address = {**plain, **environment}, address
    try:
        return fleet.client("fit", points, store, *FIT)
    finally:
        fleet.environment, fleet.address = theirs


def test_a_fit_over_tls_has_the_bits_of_one_without_a_cluster(fleet, points, tmp_path):
    party = fleet.client("fit", points, tmp_path / "run.zarr", *FIT)
    assert outcome(party) == (0, [])
    alone = Isomap(n_neighbors=8).fit(np.load(points))
    np.testing.assert_array_equal(load(tmp_path / "run.zarr").embedding_, alone.embedding_)
    assert "tls://127.0.0.1" in fleet.workers[0].errors.read_text()
    assert "tcp://" not in fleet.workers[0].errors.read_text()


def test_who_has_no_certificate_of_the_authority_is_refused_in_one_line_and_writes_nothing(
    fleet, authorities, points, tmp_path
):
    own, other = (certificates.environment(str(authorities[name])) for name in ("own", "other"))
    # Knows the authority, but has a certificate of another: it is the scheduler that refuses this one.
    mixed = {**other, "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": own["DASK_DISTRIBUTED__COMM__TLS__CA_FILE"]}
    tls, tcp = fleet.address, fleet.address.replace("tls://", "tcp://")
    cases = {
        "another's certificate": (mixed, tls, "certificates, all signed by one authority"),
        "none": ({}, tls, "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE"),
        "no encryption": ({}, tcp, "check the address (tls:// where it has certificates"),
    }
    clients = {
        name: client_of(fleet, environment, address, tmp_path / f"{number}.zarr", points)
        for number, (name, (environment, address, _)) in enumerate(cases.items())
    }
    for name, party in clients.items():
        code, lines = outcome(party)
        assert (name, code, len(lines)) == (name, 2, 1), lines
        assert cases[name][2] in lines[0] and lines[0].startswith("scalemani: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "message"),
    [("other", "certificates, all signed by one authority"), ("gone", r"can't be read: \[Errno 2\] No such file")],
)
def test_another_authority_and_missing_files_are_named(fleet, authorities, folder, message):
    """The client is the one that refuses, before or in the handshake."""
    place = authorities["own"].parent / folder
    settings = {
        "distributed.comm.tls.ca-file": str(place / "ca.pem"),
        "distributed.comm.tls.client.cert": str(place / "cert.pem"),
        "distributed.comm.tls.client.key": str(place / "key.pem"),
    }
    with dask.config.set(settings), pytest.raises(ScalemaniError, match=message), DaskCluster(fleet.address):
        pass


def test_an_unencrypted_connection_gets_no_word_of_dasks(fleet):
    """The scheduler ends it at the first bytes that are no TLS; over TCP it would have introduced itself."""
    host, port = fleet.address.removeprefix("tls://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        plain.sendall(bytes(64))
        heard = b""
        try:
            while some := plain.recv(4096):
                heard += some
        except ConnectionResetError:
            pass
    assert b"compression" not in heard and len(heard) <= 7  # at most a TLS alert
