// Recent decisions of everybody.

import { get } from "./api.js";
import { DecisionList } from "./decision.js";
import { make } from "./dom.js";

const LISTED = 50;
/** Every decision tells of every host of its farm: of large farms fewer are listed. */
const CANDIDATES = 5000;
const FEWEST = 10;

export function decisions(again) {
  const list = new DecisionList({ empty: "No decision is kept.", who: true });
  const note = make("p", { class: "faint" });
  let limit = FEWEST;
  return {
    title: "Decisions",
    element: make("div", {}, note, list.element),
    async refresh() {
      const { decisions } = await get(["decisions"], { limit });
      const largest = Math.max(1, ...decisions.map(({ decision }) => decision?.candidates.length ?? 0));
      const fits = Math.max(FEWEST, Math.min(LISTED, Math.floor(CANDIDATES / largest)));
      list.update(decisions);
      const text = decisions.length < limit ? "All that are kept." : `The newest ${decisions.length}; find a user to see older ones.`;
      if (note.textContent !== text) note.textContent = text;
      if (fits !== limit) {
        limit = fits;
        if (decisions.length === FEWEST) again();
      }
    },
  };
}
