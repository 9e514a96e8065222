"""An old client: pyguacamole names no protocol version, as Guacamole 1.0.0 and before."""

import time

from guacamole.client import GuacamoleClient
from guacamole.instruction import GuacamoleInstruction
from support.picture import Picture


def test_a_client_without_a_protocol_version_sees_a_drawn_desktop(gateway, farm, make_user, tmp_path):
    alice = make_user("alice")
    client = GuacamoleClient(*gateway.address, timeout=20)
    parameters = {name.replace("-", "_"): value for name, value in gateway.rdp(alice).items()}
    # No audio: guacd's `audio/L16;rate=...` holds a semicolon, at which pyguacamole ends an instruction.
    client.handshake(protocol="rdp", audio=[], image=["image/png"], **parameters)
    assert client.id
    picture = Picture()
    _paint(client, picture, time.monotonic() + 30)
    picture.image().save(tmp_path / "legacy.png")
    client.send_instruction(GuacamoleInstruction("disconnect"))
    client.close()
    assert len(farm.logons(alice)) == 1


def _paint(client, picture, deadline):
    """Reads until the desktop is drawn; each read has the client's own time limit."""
    while time.monotonic() < deadline:
        instruction = client.read_instruction()
        picture.apply(instruction.opcode, instruction.args)
        if instruction.opcode == "sync":
            client.send_instruction(GuacamoleInstruction("sync", instruction.args[0]))
            if picture.desktop_drawn():
                return
    raise AssertionError("the desktop was not drawn in time")
