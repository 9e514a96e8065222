// Starts the page: who is logged in, which view is shown, and when the broker is asked again.

import { Refused, Unreachable, forgetKey, get, hasKey, useKey } from "./api.js";
import { decision } from "./decision.js";
import { decisions } from "./decisions.js";
import { make } from "./dom.js";
import { host } from "./host.js";
import { farm, hosts } from "./hosts.js";
import { overview } from "./overview.js";
import * as rights from "./rights.js";
import { listen } from "./shortcuts.js";
import { tunnels } from "./tunnels.js";
import { user } from "./user.js";
import { moment } from "./words.js";

const PACE = 5_000; // milliseconds between two looks
const VIEWS = { overview, hosts, host, farm, user, tunnels, decisions, decision };
/** The entry of the navigation that a view without one of its own belongs to. */
const UNDER = { host: "hosts", farm: "overview", decision: "decisions" };

const by = (id) => document.getElementById(id);
let shown; // the view
let looking = false;
let again = false;
let timer;
let lastAnswer; // RFC 3339

async function look() {
  clearTimeout(timer);
  if (looking) {
    again = true;
    return;
  }
  if (!shown || document.hidden) return;
  looking = true;
  const view = shown;
  try {
    await view.refresh();
    answered();
  } catch (error) {
    if (view === shown) failed(error);
  } finally {
    looking = false;
  }
  if (!shown) return;
  if (again || view !== shown) {
    again = false;
    look();
  } else {
    timer = setTimeout(look, PACE);
  }
}

function answered() {
  lastAnswer = new Date().toISOString();
  banner("");
  by("state").textContent = `as of ${moment(lastAnswer).text}`;
}

function failed(error) {
  const old = lastAnswer ? ` What is shown is from ${moment(lastAnswer).text}.` : "";
  if (error instanceof Refused && error.status === 401) logOut("The broker does not accept this key any more.");
  else if (error instanceof Refused) banner(`The broker answers: ${error.message}.`);
  else if (error instanceof Unreachable) banner(`The broker cannot be reached.${old} It is asked again every ${PACE / 1000} s.`);
  else throw error;
}

function banner(text) {
  if (by("banner").textContent !== text) by("banner").textContent = text;
}

function go() {
  if (!by("login").hidden) return;
  const [name, id] = location.hash.replace(/^#\/?/, "").split("/");
  const known = Object.hasOwn(VIEWS, name) ? name : "overview";
  shown = VIEWS[known](look, decoded(id));
  for (const link of by("views").children) {
    const here = link.hash === `#/${UNDER[known] ?? known}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${shown.title} - sessionguard`;
  const heading = make("h1", { tabindex: "-1" }, shown.title);
  by("view").replaceChildren(heading, shown.element);
  by("said").replaceChildren();
  banner("");
  heading.focus({ preventScroll: true });
  scrollTo(0, 0);
  look();
}

function decoded(id) {
  try {
    return decodeURIComponent(id ?? "");
  } catch {
    return id;
  }
}

async function logIn() {
  const me = await get(["whoami"]);
  if (!me.roles.includes("admin-read")) throw new Refused(403, `this key has the role ${me.roles.join(", ") || "nothing"}, and looking needs admin-read`);
  const { version } = await get(["openapi.json"]).then(({ info }) => info);
  rights.know(me.roles);
  by("broker").textContent = version;
  by("role").textContent = `${me.name}, ${rights.mayWrite() ? "may change" : "may only read"}`;
  for (const id of ["views", "who"]) by(id).hidden = false;
  by("login").hidden = true;
  go();
}

function logOut(why = "") {
  forgetKey();
  clearTimeout(timer);
  shown = undefined;
  lastAnswer = undefined;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close("no");
  for (const id of ["views", "who"]) by(id).hidden = true;
  by("view").replaceChildren();
  by("said").replaceChildren();
  by("broker").textContent = "";
  document.title = "sessionguard";
  banner("");
  askForKey(why);
}

function askForKey(why) {
  by("login").hidden = false;
  by("key-error").textContent = why;
  by("key").value = "";
  by("key").focus();
}

function whyNotIn(error) {
  if (error instanceof Unreachable) return "The broker cannot be reached.";
  return error.status === 401 ? "The broker does not accept this key." : `The broker answers: ${error.message}.`;
}

async function tryToLogIn() {
  try {
    await logIn();
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    // A key that was good may be so again: it is asked for only where it was refused.
    if (error instanceof Refused) forgetKey();
    askForKey(whyNotIn(error));
  }
}

by("login").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(by("key").value.trim());
  tryToLogIn();
});
by("leave").addEventListener("click", () => logOut());
by("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the view
  by("main").focus();
});
addEventListener("hashchange", go);
document.addEventListener("visibilitychange", () => !document.hidden && look());
listen(look);

if (hasKey()) tryToLogIn();
else askForKey("");
