"""The page on the API's port, in Chromium: what an administrator sees and does there, without a mouse.

Screenshots end up in tests/.cache/screenshots, or where SESSIONGUARD_SCREENSHOTS says.
"""

import json
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from support.page import Browser, Site
from support.waiting import until

pytestmark = pytest.mark.brokered

_UNREACHABLE = "net::ERR_"  # what the browser itself says of a broker that is gone


@pytest.fixture(scope="module")
def chromium(run_dir):
    path = Path(tempfile.mkdtemp(prefix="browser-", dir=run_dir))
    browser = Browser(path)
    yield browser
    browser.stop()


@pytest.fixture
def site(run_dir):
    site = Site(Path(tempfile.mkdtemp(prefix="page-", dir=run_dir)))
    yield site
    site.stop()


@pytest.fixture
def page(chromium, site):
    chromium.open(site.url)
    return chromium


def test_only_a_key_that_may_look_opens_the_page(page, site):
    page.screenshot("login")
    page.accessible()
    page.log_in("sg_wrong")
    page.until_text("The broker does not accept this key.")
    assert not page.all("#view h1")
    assert page.focused().get_attribute("id") == "key"
    page.log_in(site.key("broker"))
    page.until_text("this key has the role broker")
    key = site.key("admin-read")
    page.enter(key)
    page.until_text("may only read", "hosts usable")
    assert key not in page.driver.current_url
    assert not page.driver.get_cookies()
    page.driver.refresh()
    page.until_text("hosts usable")
    page.one("#leave").click()
    page.driver.refresh()
    page.until("the key is asked for again", lambda: page.one("#login").is_displayed())
    assert key not in page.driver.execute_script("return JSON.stringify({...sessionStorage, ...localStorage}) + document.body.innerHTML")
    page.clean("401 (Unauthorized)")


def test_hosts_are_shown_with_mode_score_and_why_they_are_out(page, site):
    site.command("drain", "rds-2", "--reason", "new disks", "--until", "2099-01-31T12:00:00Z")
    site.hosts["rds-3"].stop()
    until(lambda: site.host("rds-3")["probe"] == "failing", 30, "the probe notices")
    site.visit("ann")
    page.enter(site.key("admin-read"))
    page.until_text("Alarm 1 host does not answer: rds-3 since", within=".alarms")
    page.until_row("office", State="hosts out", Usable="1", Out="2", Tunnels="1")
    page.until_row("finance", State="all usable", Usable="1", Out="0")
    page.screenshot("overview")
    page.accessible()
    page.view("hosts")
    page.until_row("rds-1", Newcomers="usable", Mode="online", Users="1", Tunnels="1")
    drained = page.until_row("rds-2", Newcomers="out: in drain", Mode="drain", Order="new disks")
    assert "root: new disks, until 2099-01-31" in drained["Order"]
    page.until_row("rds-3", Newcomers="out: probe fails", Probe="fails since")
    score = next(n["score"] for n in site.host("rds-1")["newcomer"])
    assert float(page.row("rds-1")["Score"]) == score
    page.screenshot("hosts")
    page.accessible()
    # The filter, and the order of the rows.
    page.press("/", "office")
    page.until_text("3 of 4 hosts")
    next(button for button in page.all("#view thead button") if button.text == "Score").send_keys(Keys.ENTER)
    page.until("the lowest score first", lambda: page.one("tbody tr:first-child th").text == "rds-1")
    page.clean()


def test_a_key_that_may_only_read_has_no_buttons_that_work(page, site):
    site.visit("ann")
    page.enter(site.key("admin-read"))
    page.view("host/rds-1")
    page.until_text("This key may only read: changes need one with the role admin-write.")
    assert not any(control.is_enabled() for control in page.all("form.card input, form.card button"))
    page.view("tunnels")
    page.until_row("corp\\ann")
    buttons = page.all("tbody button")
    assert buttons and not any(button.is_enabled() for button in buttons)
    page.screenshot("read-only")
    page.accessible()
    page.clean()


def test_a_host_is_drained_with_the_keyboard_alone(page, site):
    page.press(site.key("admin-write"), Keys.ENTER)
    page.until_text("hosts usable")
    page.press("2")
    page.until_row("rds-1", Mode="online")
    page.tab_to("the host", lambda element: element.text == "rds-1")
    page.press(Keys.ENTER)
    page.until_text("Host rds-1", "as configured")
    page.tab_to("the modes", lambda element: element.get_attribute("type") == "radio")
    page.press(Keys.SPACE, Keys.ARROW_DOWN)
    assert page.focused().get_attribute("value") == "drain"
    page.press(Keys.TAB, "new disks", Keys.TAB, "Back at noon")
    # A refresh in between takes neither the focus nor what was typed.
    before = page.text("#state")
    page.until("the page has looked again", lambda: page.text("#state") != before)
    assert page.focused().get_attribute("name") == "message"
    page.screenshot("order")
    page.accessible()
    page.press(Keys.ENTER)
    page.until_text("Done: rds-1 drain.", within="#said")
    page.until_text("new disks", "Back at noon", "by order of")
    host = site.host("rds-1")
    assert (host["mode"], host["order"]["reason"], host["order"]["message"]) == ("drain", "new disks", "Back at noon")
    assert host["order"]["by"].startswith("key ")
    assert "new disks" in site.command("status")
    page.screenshot("host")
    page.clean()


def test_a_restart_is_ordered_with_the_keyboard_and_only_with_drain(page, site):
    page.enter(site.key("admin-write"))
    site.report("rds-1", [{"id": "3", "state": "Active", "user": "ann", "domain": "CORP"}])
    page.view("host/rds-1")
    # Whom its agent reports is there, without a tunnel of ours.
    session = lambda: page.row("corp\\ann", "section:last-of-type table") or {}
    page.until("her session is shown", lambda: session().get("State") == "active" and session()["Host"] == "rds-1")
    page.screenshot("host-with-agent")
    page.accessible()
    page.tab_to("the modes", lambda element: element.get_attribute("type") == "radio")
    page.press(Keys.SPACE)
    boxes = lambda: [box.is_enabled() for box in page.all("form.card [type=checkbox]")]
    assert boxes() == [False, False], "there is nothing to restart for online"
    page.press(Keys.ARROW_DOWN)
    page.until("the first is offered", lambda: boxes() == [True, False])
    page.tab_to("the first", lambda element: element.get_attribute("name") == "restart_when_drained")
    page.press(Keys.SPACE, Keys.TAB)
    assert page.focused().get_attribute("name") == "online_after_restart"
    page.press(Keys.SPACE)
    page.screenshot("restart")
    page.accessible()
    page.press(Keys.TAB, Keys.ENTER)
    page.until_text("Done: rds-1 drain. Then restarted and online.", within="#said")
    page.until_text("restarted once nobody is on it, and online")
    order = site.host("rds-1")["order"]
    assert (order["mode"], order["restart_when_drained"], order["online_after_restart"]) == ("drain", True, True)
    assert boxes() == [False, False], "the form is as it was"
    page.clean()


def test_the_last_usable_host_is_taken_out_by_force_only(page, site):
    page.enter(site.key("admin-write"))
    page.view("host/fin-1")
    page.until("the form is there", lambda: page.all("[value=maintenance]"))
    page.one("[value=maintenance]").click()
    page.one("[name=until]").send_keys("01312099", Keys.TAB, "1200PM")
    page.one("form.card [type=submit]").click()
    page.until_text("all the same?", "finance would have no usable host", within="#question")
    assert page.focused().get_attribute("id") == "question-no"
    page.screenshot("force")
    page.accessible()
    page.press(Keys.ESCAPE)
    page.until("the question is closed", lambda: not page.all("dialog[open]"))
    assert site.host("fin-1")["mode"] == "online"
    page.one("form.card [type=submit]").click()
    page.until("asked again", lambda: page.all("dialog[open]"))
    page.press(Keys.TAB, Keys.ENTER)
    page.until_text("Done: fin-1 maintenance until 2099-01-31", "Without a usable host: farm finance", within="#said")
    assert site.host("fin-1")["mode"] == "maintenance"
    assert site.host("fin-1")["order"]["until"].startswith("2099-01-31")
    page.view("overview")
    page.until_text("has no usable host: new users are refused", within=".alarms")
    # Back, for the whole farm.
    page.view("farm/finance")
    page.until_row("fin-1", Mode="maintenance")
    page.one("[value=online]").click()
    page.one("form.card [type=submit]").click()
    page.until_row("fin-1", Mode="online", Newcomers="usable")
    page.clean("409 (Conflict)")


def test_where_was_ann_put_and_why(page, site):
    site.command("drain", "rds-2", "--reason", "new disks")
    site.visit("bob")
    ann = site.visit("ann")
    placed = site.get("tunnels?user=ann")["tunnels"][0]
    page.enter(site.key("admin-write"))
    page.press("3")
    page.until_text("Find a user", within="#view")
    page.press("/", "ann", Keys.ENTER)
    page.until_text(f"ann is on {placed['host']} now, with an open tunnel.", f"Placed on {placed['host']}: best score", within=".answer")
    # The newest decision is open already, host by host.
    page.until_text("out: in drain (new disks)", "chosen", placed["decision_id"], within=".decisions details[open]")
    page.screenshot("find-ann")
    page.accessible()
    page.resize(360, 740)
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 360
    page.screenshot("find-ann-360")
    page.resize(1280, 860)
    # Her tunnel is ended from here, after a question.
    page.one("[aria-label='End the tunnel of corp\\\\ann']").send_keys(Keys.ENTER)
    page.until_text("End the tunnel of corp\\ann?", within="#question")
    page.press(Keys.TAB, Keys.ENTER)
    assert ann.next("error")[1] == str(0x20B)
    page.until_text(f"ann is not connected, and would go back to {placed['host']}.", within=".answer")
    page.view("decisions")
    page.until_text("corp\\ann", "corp\\bob")
    page.screenshot("decisions")
    page.accessible()
    page.one(".decisions summary").send_keys(Keys.ENTER)
    page.until_text("best score", within=".decisions details[open]")
    page.clean()


def test_a_hostile_name_is_a_text(page, site):
    hostile = "<img src=x onerror=document.title='owned'>"
    site.visit(hostile)
    site.command("drain", "rds-2", "--reason", f"<script>{hostile}</script>")
    page.enter(site.key("admin-write"))
    for view in ("tunnels", "decisions"):
        page.view(view)
        page.until_text("<img src=x onerror=")
    page.screenshot("hostile")
    page.view("hosts")
    page.until_text("<script><img src=x")
    page.view("user")
    page.press("/", hostile, Keys.ENTER)
    page.until_text("<img src=x", "is on", within=".answer")
    assert not page.all("#view img, #view script")
    assert "owned" not in page.driver.title
    # The policy would have told of every attempt.
    page.clean()


def test_it_is_said_that_the_broker_is_gone_and_that_it_is_back(page, site):
    page.enter(site.key("admin-read"))
    page.until_row("finance")
    site.process.stop()
    page.until_text("The broker cannot be reached.", "What is shown is from", within="#banner")
    assert page.row("finance"), "what was known stays"
    page.screenshot("gone")
    page.accessible()
    site.start()
    page.until("it is said no more", lambda: not page.text("#banner"))
    page.until_row("finance", State="all usable")
    page.clean(_UNREACHABLE)


def test_a_key_that_was_revoked_ends_the_visit(page, site):
    key = site.key("admin-read")
    page.enter(key)
    page.until_row("finance")
    id = next(known["id"] for known in site.get("keys")["keys"] if known["id"] in key)
    site.command("keys", "revoke", id)
    page.until_text("The broker does not accept this key any more.")
    assert not page.all("#view *")
    page.clean("401 (Unauthorized)")


def test_it_is_usable_in_the_dark_and_on_a_small_screen(chromium, site):
    chromium.open(site.url, media=[("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")])
    site.command("drain", "rds-2", "--reason", "new disks")
    site.visit("ann")
    chromium.enter(site.key("admin-write"))
    for view, shows in (("overview", "all usable"), ("hosts", "new disks"), ("host/rds-2", "by order of"), ("tunnels", "corp\\ann")):
        chromium.view(view)
        chromium.until_text(shows, within="#view")
        chromium.resize(1280, 860)
        chromium.accessible()
        chromium.screenshot(f"dark-{view.replace('/', '-')}")
        chromium.resize(360, 740)
        assert chromium.driver.execute_script("return document.documentElement.scrollWidth") <= 360, view
        chromium.accessible()
        chromium.screenshot(f"small-{view.replace('/', '-')}")
    chromium.clean()


def test_a_thousand_hosts_are_shown_and_only_changed_rows_are_touched(page, site):
    more = "".join(f'[[hosts]]\nid = "many-{n:04}"\naddress = "127.9.9.9"\nport = {n + 1}\nfarm_ids = ["many"]\nmode = "maintenance"\n' for n in range(1000))
    site.config.write_text(site.config.read_text() + '[[farms]]\nid = "many"\nname = "Many"\n' + more)
    site.command("reload")
    page.enter(site.key("admin-write"))
    page.view("hosts")
    page.until_text("1004 hosts")
    page.until_row("many-0999", Mode="maintenance")
    page.screenshot("thousand")
    page.view("overview")
    page.until_text("Farm many has no usable host", within=".alarms")
    assert "many-" not in page.text(".alarms"), "what is in maintenance may be off"
    page.view("hosts")
    page.until_text("1004 hosts")
    # Whatever has settled by now is watched: from here on one host changes.
    until(lambda: all(host["probe"] != "unknown" for host in site.get("hosts")["hosts"]), 60, "every host was probed")
    state = page.text("#state")
    page.until("the page has looked again", lambda: page.text("#state") != state)
    page.driver.execute_script("""
        window.touched = new Set();
        new MutationObserver((changes) => changes.forEach(({ target }) => touched.add(target.closest?.("tr")?.cells[0].innerText)))
            .observe(document.querySelector("#view tbody"), { childList: true, subtree: true, characterData: true });
        document.querySelector("#view tbody a").focus();""")
    site.command("drain", "rds-1", "--reason", "new disks")
    page.until_row("rds-1", Mode="drain")
    assert page.driver.execute_script("return [...touched]") == ["rds-1"]
    assert page.focused().text == "fin-1"
    page.clean()


def test_the_page_is_served_to_everybody_and_holds_nothing(site):
    with urllib.request.urlopen(site.url) as answer:
        head, text = answer.headers, answer.read().decode()
    policy = head["content-security-policy"]
    for wanted in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert wanted in policy
    assert head["x-content-type-options"] == "nosniff" and head["referrer-policy"] == "no-referrer"
    assert "rds-1" not in text
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{site.url}api/v1/status")
    assert refused.value.code == 401 and "error" in json.load(refused.value)
