"""TLS with what others wrote: guacd's (OpenSSL) behind us, Java's before us."""

import pytest
from support.client import Client
from support.tls import Certificate, SecureGuacd, SecureSessionguard, java_client, java_client_without_trust
from support.waiting import until

pytestmark = pytest.mark.brokered


@pytest.fixture(scope="module")
def guacd_certificate(run_dir):
    return Certificate(run_dir, "guacd")


@pytest.fixture(scope="module")
def secure_guacd(run_dir, guacd_certificate):
    guacd = SecureGuacd(run_dir, guacd_certificate)
    yield guacd
    guacd.stop()


@pytest.fixture
def secured(tmp_path, farm, users):
    """Starts a gateway with these settings; none may have a password in its log."""
    started = []

    def start(guacd, settings="", own=None):
        started.append(SecureSessionguard(tmp_path, guacd, farm.hosts, settings, own))
        return started[-1]

    yield start
    for gateway in started:
        gateway.stop()
        log = gateway.process.text()
        assert not any(user.password in log for user in users.made), "a password is in sessionguard's log"


def refused(gateway, user):
    """The refusal's code, and the reason in the log."""
    with Client(gateway.address, gateway.rdp(user)) as client:
        client.until(lambda: "disconnect" in client.opcodes, 15, "the refusal is complete")
        [line] = until(lambda: gateway.lines("Refused"), 15, "the refusal is in the log")
        return client.error, line["reason"]


def test_a_self_signed_guacd_is_known_by_its_pin(secured, secure_guacd, guacd_certificate, make_user, visit):
    gateway = secured(secure_guacd, f'tls = true\npin_sha256 = ["{guacd_certificate.fingerprint()}"]\n')
    seen = visit(gateway, make_user("alice"))
    assert len(seen.client.picture.colours()) > 200
    gateway.leave(seen.client)


def test_a_self_signed_guacd_without_a_pin_is_refused_and_its_pin_is_told(secured, secure_guacd, guacd_certificate,
                                                                           make_user):
    gateway = secured(secure_guacd, f'tls = true\nca_file = "{guacd_certificate.cert}"\n')
    code, reason = refused(gateway, make_user("alice"))
    assert code == 0x208
    assert "CaUsedAsEndEntity" in reason
    assert f'pin_sha256 = ["{guacd_certificate.fingerprint()}"]' in reason


def test_plain_text_and_tls_are_told_apart(secured, secure_guacd, make_user):
    code, reason = refused(secured(secure_guacd), make_user("alice"))
    assert code == 0x208
    assert "tls = true in [guacd]" in reason


def test_a_guacd_without_tls_is_told_apart(secured, guacd, guacd_certificate, make_user):
    gateway = secured(guacd, f'tls = true\npin_sha256 = ["{guacd_certificate.fingerprint()}"]\n')
    code, reason = refused(gateway, make_user("alice"))
    assert code == 0x208
    assert "tls = false in [guacd]" in reason


# A name without a dot: Java sends no SNI for it.
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_java_comes_by_tls(secured, secure_guacd, guacd_certificate, run_dir, tmp_path, make_user, host):
    own = Certificate(tmp_path, "localhost")
    gateway = secured(secure_guacd, f'tls = true\npin_sha256 = ["{guacd_certificate.fingerprint()}"]\n', own)
    alice = make_user("alice")
    printed = java_client(own, tmp_path, gateway.address, host, alice)
    assert printed.startswith("TLSv1.3 "), printed
    assert len(gateway.placements(alice)) == 1
    [ended] = until(lambda: gateway.lines("Tunnel ended"), 15, "the tunnel's end is in the log")
    assert ended["phase"] == "stood"


def test_a_java_that_does_not_trust_us_is_told_of(secured, guacd, tmp_path, make_user):
    gateway = secured(guacd, own=Certificate(tmp_path, "localhost"))
    printed = java_client_without_trust(gateway.address, "localhost", make_user("alice"))
    assert "PKIX path building failed" in printed
    [failed] = until(lambda: gateway.lines("TLS handshake failed"), 15, "the failure is in the log")
    assert "trust store of Guacamole's Java" in failed["reason"]
