// Open tunnels: a table that several views show, and the view of all of them.

import { ask, get, path } from "./api.js";
import { make, question, say } from "./dom.js";
import { mayWrite, note, whyNot } from "./rights.js";
import { Table } from "./table.js";
import { bytes, moment } from "./words.js";

const hostLink = (host) => (host ? { text: host, href: `#/host/${encodeURIComponent(host)}` } : { text: "passed through", tone: "faint" });

/** `ended` is called when one was told to end. */
export function tunnelTable(label, ended, filter = true) {
  const end = async (tunnel) => {
    const whose = tunnel.user ?? tunnel.login ?? "somebody";
    const sure = await question({
      title: `End the tunnel of ${whose}?`,
      text: `It leads to ${tunnel.host ?? "a host that was not chosen here"}. The page in front of the user is told; the session on the host stays.`,
      yes: "End the tunnel",
    });
    if (!sure) return;
    try {
      await ask("DELETE", path(["tunnels", tunnel.id]));
      say(`The tunnel of ${whose} was told to end.`);
    } catch (error) {
      say(`Not ended: ${error.message}`, true);
    }
    ended();
  };
  return new Table({
    label,
    filter,
    noun: "tunnel",
    id: (tunnel) => tunnel.id,
    empty: "No tunnel is open.",
    sort: { at: 4, down: true },
    columns: [
      { name: "User", cell: (t) => t.user ?? { text: "not known", tone: "faint" }, value: (t) => t.user ?? "" },
      { name: "Login", cell: (t) => t.login ?? "", value: (t) => t.login ?? "" },
      { name: "Host", cell: (t) => hostLink(t.host), value: (t) => t.host ?? "" },
      { name: "Resource", cell: (t) => t.resource ?? t.kind, value: (t) => t.resource ?? t.kind },
      { name: "Open since", cell: (t) => moment(t.since), value: (t) => t.id },
      { name: "Stood", cell: (t) => (t.stood ? moment(t.stood) : { text: t.kind === "brokered" ? "not yet" : "", tone: "warn" }), value: (t) => t.stood ?? "" },
      { name: "To guacd", figure: true, cell: (t) => bytes(t.to_guacd), value: (t) => t.to_guacd },
      { name: "To Guacamole", figure: true, cell: (t) => bytes(t.to_guacamole), value: (t) => t.to_guacamole },
      { name: "Decision", cell: (t) => (t.decision_id ? { text: "why", href: `#/decision/${t.decision_id}`, title: t.decision_id } : "") },
      { name: "End", cell: (t) => ({ text: "End", act: end, off: !mayWrite(), title: whyNot(), label: `End the tunnel of ${t.user ?? t.login ?? t.id}` }) },
    ],
  });
}

export function tunnels(again) {
  const table = tunnelTable("Open tunnels", again);
  const more = make("p", { class: "note", hidden: true }, "There are more: these are the 1000 oldest. Find a user, or open a host, to see the others.");
  return {
    title: "Tunnels",
    element: make("div", {}, note(), more, table.element),
    async refresh() {
      const list = await get(["tunnels"]);
      more.hidden = list.next === null;
      table.update(list.tunnels);
    },
  };
}
