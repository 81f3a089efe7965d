"use strict";
(() => {
  const value = (row, column) => {
    const text = (row.cells[column]?.textContent ?? "").replace(/[≈\u2009,$x]/g, "").trim();
    const number = parseFloat(text);
    return /^[-+\d.]/.test(text) && !Number.isNaN(number) ? number : text.toLowerCase();
  };
  const sort = (table, heading, column) => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const order = (a, b) => {
      const x = value(a, column), y = value(b, column);
      if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    };
    body.append(...[...body.rows].sort(order));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.append(...heading.childNodes);
      button.type = "button";
      button.addEventListener("click", () => sort(table, heading, column));
      heading.append(button);
    });
    if (table.tBodies[0].rows.length < 6) continue;
    const filter = document.createElement("input");
    filter.className = "filter";
    filter.type = "search";
    filter.placeholder = "filter rows";
    filter.setAttribute("aria-label", "filter rows");
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    (table.closest(".scroll") ?? table).before(filter);
  }
  for (const source of document.querySelectorAll("pre.copy")) {
    const button = document.createElement("button");
    button.className = "copied";
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "selected: press Ctrl-C";
      }
    });
    source.parentElement.before(button);
  }
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", open);
  if (location.hash) open();
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
})();
