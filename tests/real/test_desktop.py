"""A user clicks the published desktop and sees it."""

import pytest
from support.client import Client
from support.picture import SCREEN


def test_the_user_sees_a_drawn_desktop_of_the_chosen_host(gateway, farm, make_user, visit, tmp_path):
    alice = make_user("alice")
    seen = visit(gateway, alice)
    picture = seen.client.picture
    picture.image().save(tmp_path / "desktop.png")
    assert picture.image().size == SCREEN
    assert not picture.blank() and len(picture.colours()) > 200
    assert seen.kind == "created"
    assert len(farm.logons(alice)) == 1, "one click, one RDP logon in the whole farm"
    if not gateway.direct:
        [placed] = gateway.placements(alice)
        assert placed["host"] == seen.host, "the log names the host the user really is on"


def test_a_second_client_joins_by_the_id_it_was_given(gateway, farm, make_user, visit, tmp_path):
    alice = make_user("alice")
    first = visit(gateway, alice)
    with Client(gateway.address, join=first.client.ready) as second:
        second.until_desktop()
        second.picture.image().save(tmp_path / "joined.png")
        assert second.ready == first.client.ready
        assert second.picture.background() == first.client.picture.background(), "the same session"
    assert len(farm.logons(alice)) == 1, "a join is no logon"


@pytest.mark.brokered
def test_a_join_of_an_unknown_id_is_refused(gateway):
    with Client(gateway.address, join="$00000000-0000-0000-0000-000000000000") as client:
        client.until(lambda: "disconnect" in client.opcodes, 10, "the refusal is complete")
        assert client.error == 0x204
