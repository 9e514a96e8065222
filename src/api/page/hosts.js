// Hosts: the table of all, and a farm's.

import { get } from "./api.js";
import { make, section } from "./dom.js";
import { orderForm } from "./order.js";
import { Table } from "./table.js";
import { mode, moment, newcomer, order, probe, report, score, usable, users } from "./words.js";

function hostTable(label) {
  return new Table({
    label,
    noun: "host",
    id: (host) => host.id,
    empty: "No host is configured.",
    columns: [
      { name: "Host", cell: (h) => ({ text: h.id, href: `#/host/${encodeURIComponent(h.id)}`, title: h.address ?? "taken out, still in use" }), value: (h) => h.id },
      { name: "Farms", cell: (h) => h.farms.join(", "), value: (h) => h.farms.join(", ") },
      { name: "Mode", cell: (h) => mode(h.mode), value: (h) => h.mode },
      { name: "Newcomers", cell: newcomer, value: (h) => (usable(h) ? "" : (h.newcomer[0]?.out ?? "-")) },
      { name: "Order", wide: true, cell: (h) => [...[order(h.order)].flat(), ...(h.announced.length ? [{ text: ` +${h.announced.length} announced`, tone: "faint" }] : [])], value: (h) => h.order?.reason ?? "" },
      { name: "Score", figure: true, cell: score, value: (h) => Math.max(...h.newcomer.map(({ score }) => score), -1e9) },
      { name: "Users", figure: true, cell: users, value: (h) => h.occupancy?.users ?? -1 },
      { name: "Active", figure: true, cell: (h) => String(h.active), value: (h) => h.active },
      { name: "Disc.", figure: true, cell: (h) => ({ text: String(h.disconnected), title: "disconnected sessions" }), value: (h) => h.disconnected },
      { name: "Tunnels", figure: true, cell: (h) => String(h.tunnels), value: (h) => h.tunnels },
      { name: "Logons", figure: true, cell: (h) => (h.occupancy ? `${h.occupancy.pending} of ${h.occupancy.pending_cap}` : ""), value: (h) => h.pending },
      { name: "Health", figure: true, cell: (h) => String(h.health), value: (h) => h.health },
      { name: "Probe", cell: (h) => (h.probe === "answering" ? { text: "answers", title: `since ${moment(h.probe_since).text}` } : probe(h)), value: (h) => h.probe },
      { name: "Report", cell: report, value: (h) => h.report_age_seconds ?? -1 },
    ],
  });
}

export function hosts() {
  const table = hostTable("Hosts");
  return {
    title: "Hosts",
    element: table.element,
    refresh: async () => table.update((await get(["hosts"])).hosts),
  };
}

export function farm(again, id) {
  const table = hostTable(`Hosts of farm ${id}`);
  return {
    title: `Farm ${id}`,
    element: make("div", {}, section("Hosts", table.element), section("Order for every host of this farm", orderForm("farms", id, again))),
    refresh: async () => table.update((await get(["hosts"], { farm: id })).hosts),
  };
}
