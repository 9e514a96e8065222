// Recent decisions of everybody.

import { get } from "./api.js";
import { DecisionList } from "./decision.js";
import { make } from "./dom.js";

const LISTED = 50;
export function decisions() {
  const list = new DecisionList({ empty: "No decision is kept.", who: true });
  const note = make("p", { class: "faint" });
  return {
    title: "Decisions",
    element: make("div", {}, note, list.element),
    async refresh() {
      const { decisions } = await get(["decisions"], { limit: LISTED });
      list.update(decisions);
      const text = decisions.length < LISTED ? "All that are kept." : `The newest ${decisions.length}; find a user to see older ones.`;
      if (note.textContent !== text) note.textContent = text;
    },
  };
}
