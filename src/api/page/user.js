// Where somebody is, and why there: sessions, tunnels, leases and past decisions in one place.

import { get } from "./api.js";
import { DecisionList, sentence, wholeDecision } from "./decision.js";
import { make, section } from "./dom.js";
import { sessionTable } from "./sessions.js";
import { Table } from "./table.js";
import { tunnelTable } from "./tunnels.js";
import { moment } from "./words.js";

const DECISIONS = 20;

export function user(again) {
  let wanted; // nobody yet
  let opened; // whose newest decision was opened for the reader
  const name = make("input", { id: "user-name", type: "search", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "user-help" });
  const form = make("form", { class: "find", role: "search" },
    make("label", { for: "user-name" }, "User"), name, make("button", { type: "submit", class: "chief" }, "Find"),
    make("small", { id: "user-help", class: "faint" }, "spelled any way: ann, CORP\\ann, ann@corp.example"));
  const answer = make("p", { class: "answer", role: "status" });
  const sessions = sessionTable("Sessions of the user", "No host reports a session of this user.");
  const tunnels = tunnelTable("Open tunnels of the user", again, false);
  const leases = leaseTable();
  const decisions = new DecisionList({ empty: "No decision about this user is kept." });
  const found = make("div", { hidden: true }, answer, section("Open tunnels", tunnels.element), section("Decisions, newest first", decisions.element),
    section("Sessions", sessions.element), section("Leases", leases.element));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    wanted = name.value.trim() || undefined;
    opened = undefined;
    again();
  });
  return {
    title: "Find a user",
    element: make("div", {}, form, found),
    async refresh() {
      const asked = wanted;
      if (!asked) return;
      const [now, past] = await Promise.all([get(["sessions"], { user: asked }), get(["decisions"], { user: asked, limit: DECISIONS })]);
      if (asked !== wanted) return;
      const last = past.decisions.length ? await wholeDecision(past.decisions[0].id) : undefined;
      if (asked !== wanted) return;
      const text = whereAndWhy(asked, now, last);
      if (answer.textContent !== text) answer.textContent = text;
      sessions.update(now.sessions);
      tunnels.update(now.tunnels);
      leases.update(now.leases);
      decisions.update(past.decisions, opened !== asked);
      opened = asked;
      found.hidden = false;
    },
  };
}

function whereAndWhy(asked, { sessions, tunnels, leases }, last) {
  const hosts = (list) => [...new Set(list.map(({ host }) => host).filter(Boolean))].join(", ");
  const why = last ? ` Last decision, ${moment(last.time).text}: ${sentence(last)}.` : " No decision is kept.";
  if (hosts(tunnels)) return `${asked} is on ${hosts(tunnels)} now, with an open tunnel.${why}`;
  if (hosts(sessions)) return `${asked} has a session on ${hosts(sessions)}, and no tunnel is open.${why}`;
  if (hosts(leases)) return `${asked} is not connected, and would go back to ${hosts(leases)}.${why}`;
  return `${asked} is nowhere now.${why}`;
}

function leaseTable() {
  return new Table({
    label: "Leases of the user",
    noun: "lease",
    filter: false,
    id: (lease) => `${lease.key} ${lease.farm}`,
    empty: "This user has no lease.",
    columns: [
      { name: "Lease", cell: (l) => l.key, value: (l) => l.key },
      { name: "Farm", cell: (l) => l.farm, value: (l) => l.farm },
      { name: "Host", cell: (l) => ({ text: l.host, href: `#/host/${encodeURIComponent(l.host)}` }), value: (l) => l.host },
      { name: "State", cell: (l) => l.state, value: (l) => l.state },
      { name: "Until", cell: (l) => moment(l.until), value: (l) => l.until },
    ],
  });
}
