"use strict";
addEventListener("DOMContentLoaded", () => {
  const at = id => document.getElementById(id);
  const [form, token, row, said, labels, explanation] = ["ask", "token", "row", "said", "labels", "explanation"].map(at);
  const SHOWN = 12;
  let kind = "texts";
  let asked;

  const make = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const say = (text, wrong = false) => {
    said.textContent = text;
    said.className = wrong ? "wrong" : "";
  };
  const number = value => value.toLocaleString("en", { minimumFractionDigits: 4, maximumFractionDigits: 4 });
  const signed = value => (value < 0 ? "\u2212" : "+") + number(Math.abs(value));

  const request = async (path, body) => {
    const headers = token.value ? { Authorization: `Bearer ${token.value}` } : {};
    const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(path, options);
    const answer = await response.json();
    if (response.status === 401) at("token-field").hidden = false;
    if (!response.ok) throw new Error(answer.error);
    return answer;
  };

  /* The token is behind `#` in the address, which browsers do not send. It is taken out of the address at once. */
  token.value = decodeURIComponent(location.hash.slice(1));
  at("token-field").hidden = token.value !== "";
  history.replaceState(null, "", location.pathname);

  const example = ({ name, values }) => `${JSON.stringify(name)}: ${values ? JSON.stringify(values[0]) : 1}`;
  const describe = async () => {
    const { model, rows, labels: known } = await request("labels");
    document.title = document.querySelector("h1").textContent = model;
    kind = rows.kind;
    const needs = {
      texts: "",
      sparse: rows.attributes
        ? `A row is an object of features and their values, such as {${rows.attributes.slice(0, 3).map(example).join(", ")}}.`
        : `A row is an object of features ${rows.first_feature} to ${rows.first_feature + rows.features - 1}, such as {"${rows.first_feature}": 1}.`,
      dense: `A row is a list of ${rows.features} numbers.`,
    }[kind];
    if (kind !== "texts") at("row-field").querySelector("label").textContent = "Row, as JSON";
    say(`The model knows ${known.length.toLocaleString("en")} labels. ${needs}`);
  };

  const cause = ({ what, has_label: has }) => {
    const cell = make("td");
    if (what.kind === "feature") cell.append(what.name ?? `feature ${what.feature}`);
    else if (what.kind === "constant") cell.append(what.name);
    else {
      cell.append(what.id ?? `training row ${what.row}`);
      if (has !== null) cell.append(make("small", has ? "has the label" : "does not have the label"));
      if (what.text) cell.append(make("small", what.text));
    }
    return cell;
  };
  const table = (caption, lines) => {
    const element = make("table");
    element.append(make("caption", caption), make("tbody"));
    for (const [value, cell] of lines) {
      const line = make("tr");
      line.append(make("td", signed(value), { class: "number" }), cell);
      element.lastChild.append(line);
    }
    return element;
  };
  const term = ({ value, part, formula }) => [value, make("td", part ? `${part}: ${formula}` : formula)];

  const explain = async ({ label, name }) => {
    const answer = await request("explain", { ...asked, label: name ?? label });
    const found = answer.labels[0];
    const heading = make("h3", name ?? `label ${label}`);
    heading.append(" ", make("span", found.predicted ? "is predicted" : "is not predicted"));
    const parts = [heading, table(`Score ${number(found.score)}`, found.score_terms.map(term))];
    if (found.threshold !== null) {
      parts.push(table(`Threshold ${number(found.threshold)}`, found.threshold_terms.map(term)));
    }
    for (const { evidence, part } of found.score_terms) {
      if (!evidence || !evidence.causes.length) continue;
      const listed = evidence.causes.slice(0, SHOWN).map(each => [each.value, cause(each)]);
      const hidden = evidence.causes.length - listed.length + evidence.others;
      const box = make("details", undefined, { open: "" });
      box.append(make("summary", part ?? evidence.of), table(evidence.words, listed));
      if (hidden) box.append(make("p", `and ${hidden} more`, { class: "note" }));
      parts.push(box);
    }
    parts.push(...[...answer.notes ?? [], ...found.notes].map(note => make("p", note, { class: "note" })));
    explanation.replaceChildren(...parts);
  };

  const attempt = async work => {
    try { await work(); } catch (error) { say(error.message, true); }
  };

  const show = list => {
    const button = found => {
      const element = make("button", undefined, { type: "button", "data-predicted": found.predicted, "aria-pressed": "false" });
      const strength = found.probability ?? Math.max(0, Math.min(1, found.score));
      element.append(
        make("span", found.name ?? `label ${found.label}`, { class: "label-name" }),
        make("progress", undefined, { max: 1, value: strength, "aria-label": "probability" }),
        make("span", number(found.probability ?? found.score), { class: "number" }),
      );
      element.addEventListener("click", event => {
        for (const other of labels.children) other.setAttribute("aria-pressed", String(other === element));
        attempt(async () => {
          await explain(found);
          if (event.isTrusted) at("why").scrollIntoView();
        });
      });
      return element;
    };
    labels.replaceChildren(...list.map(button));
  };

  form.addEventListener("submit", event => {
    event.preventDefault();
    attempt(async () => {
      if (kind !== "texts") {
        try { asked = { row: JSON.parse(row.value) }; } catch { throw new Error("This is not a row in JSON."); }
      } else asked = { text: row.value };
      const started = performance.now();
      const list = (await request("predict", { ...asked, top: SHOWN })).predictions[0].labels;
      show(list);
      const predicted = list.filter(found => found.predicted).length;
      say(`${predicted} of the best ${list.length} labels are predicted (\u2713), in ${Math.round(performance.now() - started)} ms.`);
      if (list.length) labels.firstChild.click();
    });
  });
  row.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  token.addEventListener("change", () => attempt(describe));
  attempt(describe);
});
