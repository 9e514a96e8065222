"""Certificates made with openssl, guacd behind TLS, and what sessionguard is told of both. Used by test_tls.py."""

import os
import re
import subprocess
from pathlib import Path

from . import net
from .gateway import Sessionguard
from .process import Process

_JAVA_CLIENT = Path(__file__).parent / "GuacamoleTls.java"


class Certificate:
    """A self-signed certificate and its key, made the way guacd's own pages do it."""

    def __init__(self, folder, name):
        self.cert, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        _run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}",
             "-keyout", self.key, "-out", self.cert)
        self.key.chmod(0o600)

    def fingerprint(self):
        """What the configuration's help says to run, and what of it goes into the configuration."""
        printed = _run("openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", self.cert)
        return re.search("=(.*)", printed)[1]


class SecureGuacd:
    """A real guacd that speaks TLS and nothing else."""

    def __init__(self, run_dir, certificate):
        self.host = net.address(2)
        self.port = net.free_port(self.host)
        self.process = Process(
            "guacd", ["guacd", "-f", "-L", "info", "-b", self.host, "-l", self.port,
                      "-C", certificate.cert, "-K", certificate.key],
            run_dir / "guacd-tls.log", contained=True, env={**os.environ, "HOME": str(run_dir)})
        self.process.until(lambda: net.answers(self.host, self.port), 10, "accepts connections")

    def stop(self):
        self.process.stop()


class SecureSessionguard(Sessionguard):
    """A gateway with more settings for `[guacd]`, and a certificate of its own where one is given."""

    def __init__(self, run_dir, guacd, hosts, guacd_settings="", own=None):
        more = run_dir / "conf.d"
        more.mkdir()
        (more / "tls.toml").write_text("[guacd]\n" + guacd_settings)
        listener = own and f'tls_cert_file = "{own.cert}"\ntls_key_file = "{own.key}"\n'
        self._listener = listener or ""
        super().__init__(run_dir, guacd, hosts)

    def adjusted(self, config):
        return config.replace("[[listen]]\n", "[[listen]]\n" + self._listener)


def java_client(certificate, folder, address, host, user):
    """A click through Java's TLS, as Guacamole makes its sockets: the last line it prints.

    `host` is what Guacamole would have as guacd-hostname; it is dialled as it is.
    """
    store = folder / "trust.p12"
    if not store.exists():
        _run("keytool", "-importcert", "-noprompt", "-alias", "guacd", "-file", certificate.cert,
             "-keystore", store, "-storetype", "PKCS12", "-storepass", "changeit")
    return _run("java", f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit",
                _JAVA_CLIENT, host, address[1], user.name, user.password)


def java_client_without_trust(address, host, user):
    """The same with Java's own trust store, which knows nothing of our certificate: what it prints."""
    done = subprocess.run(["java", str(_JAVA_CLIENT), host, str(address[1]), user.name, user.password],
                          capture_output=True, text=True, timeout=90)
    assert done.returncode != 0, done.stdout
    return done.stderr


def _run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, f"{command[0]}: {done.stderr}{done.stdout}"
    return done.stdout
