"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const THEME = "pipe-theme";
  const remembered = () => {
    try { return localStorage.getItem(THEME) ?? "auto"; } catch { return "auto"; }
  };
  const remember = theme => {
    try { localStorage.setItem(THEME, theme); } catch { /* a page from a file may not keep anything */ }
  };
  const apply = theme => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  apply(remembered());

  const SHOWN = 200;
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  const badge = () => {
    const mark = document.createElement("abbr");
    mark.className = "mark";
    mark.textContent = "oracle";
    mark.title = document.querySelector("abbr.mark")?.title ?? "";
    return mark;
  };

  /* A row that came as data becomes elements when it is first shown. */
  const element = (row, numbers) => {
    if (row.tr) return row.tr;
    row.tr = document.createElement("tr");
    if (row.oracle) row.tr.className = "oracle";
    row.cells.forEach((cell, place) => {
      const td = document.createElement(place === 0 ? "th" : "td");
      if (place === 0) td.scope = "row";
      if (numbers[place]) td.className = "number";
      td.textContent = cell.text;
      if (cell.below) {
        const small = document.createElement("small");
        small.textContent = cell.below;
        td.append(small);
      }
      if (place === 0 && row.oracle) td.append(" ", badge());
      row.tr.append(td);
    });
    return row.tr;
  };

  const compare = (place, number, down) => (a, b) => {
    const [x, y] = [a.cells[place], b.cells[place]];
    if (!number) return (down ? -1 : 1) * collator.compare(x.text, y.text) || a.place - b.place;
    /* What has no figure comes last either way. */
    if (x.key === undefined || y.key === undefined) {
      return (x.key === undefined) - (y.key === undefined) || a.place - b.place;
    }
    return (down ? y.key - x.key : x.key - y.key) || a.place - b.place;
  };

  const enliven = grid => {
    const table = grid.querySelector("table");
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const numbers = heads.map(head => head.classList.contains("number"));
    const read = (cell, place) => {
      const key = cell.dataset.key;
      return { text: numbers[place] && key === undefined ? "" : cell.textContent, key: key === undefined ? undefined : Number(key) };
    };
    const rows = [...body.rows].map(tr => ({ tr, cells: [...tr.cells].map(read) }));
    const rest = grid.querySelector("script.rest");
    /* A cell that is only a text says its number itself. */
    const whole = (cell, place) => {
      if (typeof cell !== "string") return cell;
      return { text: cell, key: numbers[place] && cell !== "" ? Number(cell.replaceAll("\u202f", "")) : undefined };
    };
    if (rest) for (const row of JSON.parse(rest.textContent)) rows.push({ ...row, cells: row.cells.map(whole) });
    rows.forEach((row, place) => { row.place = place; });
    /* Thousands are set apart for the eye, and typed without. */
    const plain = text => text.replaceAll("\u202f", "").toLowerCase();
    for (const row of rows) row.words = plain(row.cells.map(cell => cell.text).join("\n"));

    const field = grid.querySelector("input[type=search]");
    const output = grid.querySelector("output");
    const more = grid.querySelector(".more");
    let sorted = null;
    let limit = SHOWN;

    const show = () => {
      const wanted = field ? plain(field.value.trim()) : "";
      let found = wanted ? rows.filter(row => row.words.includes(wanted)) : rows.slice();
      if (sorted) found.sort(compare(sorted.place, numbers[sorted.place], sorted.down));
      body.replaceChildren(...found.slice(0, limit).map(row => element(row, numbers)));
      if (output) output.textContent = wanted ? `${found.length} of ${rows.length}` : "";
      if (more) {
        const hidden = found.length - limit;
        more.hidden = hidden <= 0;
        if (hidden > 0) {
          const all = document.createElement("button");
          all.type = "button";
          all.textContent = `Show all ${found.length}`;
          all.addEventListener("click", () => { limit = Infinity; show(); });
          more.replaceChildren(`The first ${limit} of ${found.length} rows. `, all);
        }
      }
    };

    heads.forEach((head, place) => {
      const words = head.querySelector("span");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = words.textContent;
      words.replaceWith(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        /* Numbers go from the largest, words from the first; the third time, back to how it was. */
        const first = numbers[place];
        if (!sorted || sorted.place !== place) sorted = { place, down: first };
        else if (sorted.down === first) sorted.down = !first;
        else sorted = null;
        heads.forEach(other => other.setAttribute("aria-sort", "none"));
        if (sorted) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
        show();
      });
    });
    if (field) field.addEventListener("input", () => { limit = SHOWN; show(); });
    if (rest) show();
  };

  /* A link to a section that is closed opens it. */
  const unfold = () => {
    const fold = document.getElementById(location.hash.slice(1))?.querySelector(":scope > details");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", unfold);
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll(".fold")) fold.open = true;
  });

  addEventListener("DOMContentLoaded", () => {
    unfold();
    for (const input of document.querySelectorAll(".theme input")) {
      input.checked = input.value === remembered();
      input.addEventListener("change", () => { apply(input.value); remember(input.value); });
    }
    for (const grid of document.querySelectorAll(".grid")) enliven(grid);
  });
})();
