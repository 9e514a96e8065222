// Sessions as hosts report them.

import { Table } from "./table.js";
import { moment } from "./words.js";

export function sessionTable(label, empty) {
  return new Table({
    label,
    noun: "session",
    id: (session) => `${session.host} ${session.user} ${session.latest}`,
    empty,
    filter: false,
    columns: [
      { name: "User", cell: (s) => s.user, value: (s) => s.user },
      { name: "Host", cell: (s) => ({ text: s.host, href: `#/host/${encodeURIComponent(s.host)}` }), value: (s) => s.host },
      { name: "State", cell: (s) => s.state, value: (s) => s.state },
      { name: "Since", cell: (s) => (s.latest ? moment(s.latest) : "not told"), value: (s) => s.latest ?? "" },
    ],
  });
}
