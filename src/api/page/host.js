// One host: how it is, what it says to newcomers, its orders, sessions and tunnels.

import { get } from "./api.js";
import { make, section, showFacts } from "./dom.js";
import { orderForm } from "./order.js";
import { sessionTable } from "./sessions.js";
import { Table } from "./table.js";
import { tunnelTable } from "./tunnels.js";
import { mode, moment, order, probe, report, users } from "./words.js";

export function host(again, id) {
  const state = make("div");
  const announced = make("div");
  const says = new Table({
    label: "What it says to newcomers",
    noun: "farm",
    filter: false,
    id: (says) => says.farm,
    empty: "It is in no farm.",
    columns: [
      { name: "Farm", cell: (s) => ({ text: s.farm, href: `#/farm/${encodeURIComponent(s.farm)}` }), value: (s) => s.farm },
      { name: "Newcomers", cell: (s) => (s.out ? { text: `out: ${s.out}`, tone: "bad", mark: "✕" } : { text: "usable", tone: "good", mark: "✓" }), value: (s) => s.out ?? "" },
      { name: "Score", figure: true, cell: (s) => s.score.toFixed(1), value: (s) => s.score },
    ],
  });
  const sessions = sessionTable(`Sessions on ${id}`, "No session is reported.");
  const tunnels = tunnelTable(`Open tunnels to ${id}`, again);
  return {
    title: `Host ${id}`,
    element: make("div", {}, state, announced,
      section("Order", orderForm("hosts", id, again)),
      section("Newcomers", says.element),
      section("Open tunnels", tunnels.element),
      section("Sessions", sessions.element)),
    async refresh() {
      const [host, open, there] = await Promise.all([get(["hosts", id]), get(["tunnels"], { host: id }), get(["sessions"], { host: id })]);
      showFacts(state, told(host));
      showFacts(announced, host.announced.map((one) => ["Announced", [mode(one.mode), " ", ...[order(one)].flat()]]));
      says.update(host.newcomer);
      tunnels.update(open.tunnels);
      sessions.update(there.sessions);
    },
  };
}

function told(host) {
  const now = host.order;
  const rules = now ? [" by order of ", now.by, ", given ", moment(now.at)] : [" as configured"];
  return [
    ["Mode", [mode(host.mode), ...rules]],
    ["Reason", now?.reason],
    ["Message", now?.message],
    ["Until", now?.until && moment(now.until)],
    ["Then", now?.restart_when_drained && `restarted once nobody is on it${now.online_after_restart ? ", and online" : ""}`],
    ["Address", host.address ?? { text: "taken out of the configuration, still in use", tone: "warn" }],
    ["Probe", probe(host)],
    ["Report", report(host)],
    ["Health", String(host.health)],
    ["Users", users(host)],
    ["Sessions", `${host.active} active, ${host.disconnected} disconnected`],
    ["Logons", host.occupancy && `${host.occupancy.pending} of ${host.occupancy.pending_cap}`],
  ];
}
