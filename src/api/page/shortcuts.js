// Single keys, for those who want them: never while something is typed.

const by = (id) => document.getElementById(id);

export function listen(look) {
  by("help").addEventListener("click", () => by("shortcuts").showModal());
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select");
    const off = by("views").hidden || !by("single-keys").checked || document.querySelector("dialog[open]");
    if (typing || off || event.ctrlKey || event.altKey || event.metaKey) return;
    const view = by("views").children[Number(event.key) - 1];
    const filter = document.querySelector("#view input[type=search]");
    if (view) view.click();
    else if (event.key === "/" && filter) filter.focus();
    else if (event.key === "r") look();
    else if (event.key === "?") by("shortcuts").showModal();
    else return;
    event.preventDefault();
  });
}
