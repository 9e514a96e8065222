"""A user who comes back gets the session left behind."""


def test_a_returning_user_gets_the_session_left_behind_although_the_other_host_is_better(
        gateway, farm, make_user, visit, tmp_path):
    alice, bob, carol, dave = (make_user(name) for name in ("alice", "bob", "carol", "dave"))
    # A host scores 1000, less 20 for an open tunnel and 5 for a lease that lingers after one.
    left = visit(gateway, alice, "rds-a")
    home, other = left.host, farm.other(left.host).id
    b = visit(gateway, bob, other)         # home 980, other 1000
    assert b.host == other
    left.client.picture.image().save(tmp_path / "left.png")
    gateway.leave(left.client)             # home 995, other 980
    c = visit(gateway, carol, home)
    assert c.host == home                  # home 975, other 980
    gateway.leave(b.client)                # home 975, other 995
    d = visit(gateway, dave, other)
    assert d.host == other, "a stranger's placement shows which host is the better one"
    gateway.leave(d.client)                # home 975, other 990

    back = visit(gateway, alice, home)
    back.client.picture.image().save(tmp_path / "back.png")
    assert (back.host, back.kind) == (home, "reconnected")
    assert back.client.picture.background() == left.client.picture.background(), "the very session"
    # Two clicks, two logons: no probe, no retry, no detour left another trace on either host.
    assert [(entry.host, entry.kind) for entry in farm.logons(alice)] == [(home, "created"), (home, "reconnected")]
    for user in (bob, carol, dave):
        assert len(farm.logons(user)) == 1
