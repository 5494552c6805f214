// The grid of layers: one radio group of real buttons, ten in a row, and the card of the chosen one.
// The state is `selected`, `phase` and `tokens`; everything else follows from the data. `rules` is course/traffic.py once more.
// Uses kit.js, which the host puts before it.

const WAYS = { decode: "One decode step", prefill: "The whole prompt" };
const MARK = { window: "W", full: "F", reindex: "I", reuse: "·", draft: "D" };
const COLUMNS = 10;

const rules = {
  candidateRows({ group, groups }, visible) {
    const all = Math.ceil(visible / group);
    return Math.min(all, groups) * group - (all * group - visible);
  },

  // floor(1 / r) + … + floor(count / r)
  floors(count, ratio) {
    const whole = Math.floor(count / ratio);
    return ratio * whole * (whole - 1) / 2 + whole * (count % ratio + 1);
  },

  scores(data, layer, tokens, queries) {
    const { ratio, role } = data.layers[layer];
    if (role !== "reindex" || layer <= data.candidateSource) return rules.floors(tokens, ratio) - rules.floors(tokens - queries, ratio);
    let sum = 0;
    for (let t = tokens - queries; t < tokens; t++) sum += rules.candidateRows(data, Math.floor((t + 1) / ratio));
    return sum;
  },

  traffic(data, layer, phase, tokens) {
    const { role, ratio } = data.layers[layer], step = phase === "decode", before = step ? tokens - 1 : 0;
    const ring = Math.min(tokens, data.window), rows = ratio ? Math.floor(tokens / ratio) : 0;
    const queries = step ? 1 : role === "draft" ? 0 : layer < data.decoder ? tokens : ring;
    const reads = { window: step ? ring : queries }, writes = { window: step ? 1 : ring };
    let scores = 0;
    if (ratio) reads.rows = Math.min(rows, queries * data.topk);
    if (role === "full" || role === "reindex") {
      scores = rules.scores(data, layer, tokens, queries);
      reads.keys = Math.min(rows, scores);
    }
    if (role === "full") {
      writes.rows = writes.keys = rows - Math.floor(before / ratio);
      if (ratio > 1) [reads.pair, writes.pair] = [before % ratio, tokens % ratio];
    }
    return { queries, scores, reads, writes };
  },

  totals(data, phase, tokens) {
    const sums = { reads: { window: 0, rows: 0, keys: 0, pair: 0 }, writes: { window: 0, rows: 0, keys: 0, pair: 0 } };
    for (let layer = 0; layer < data.count; layer++) {
      const moved = rules.traffic(data, layer, phase, tokens);
      for (const way of ["reads", "writes"]) for (const part in moved[way]) sums[way][part] += moved[way][part] * data.bytes[part];
    }
    return sums;
  },
};

function isDark(element) {
  const [r, g, b] = (getComputedStyle(element).color.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 140;
}

const count = (number) => number.toLocaleString("en");
const sum = (parts) => Object.values(parts).reduce((a, b) => a + b, 0);

function bytes(number) {
  const [unit, name] = number >= 1e9 ? [1e9, "GB"] : [1e6, "MB"];
  return number < 1e6 ? `${count(number)} B` : `${(number / unit).toLocaleString("en", { maximumSignificantDigits: 4 })} ${name}`;
}

// 3, 4, 5, 7 -> "3–5, 7"
function ranges(numbers) {
  const runs = [];
  for (const n of numbers) if (runs.length && runs.at(-1)[1] === n - 1) runs.at(-1)[1] = n; else runs.push([n, n]);
  return runs.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}

function render({ model, el }) {
  el.addEventListener("focusin", ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }); // or JupyterLab takes its arrow keys
  const data = model.get("data"), { layers } = data;
  const stores = [...new Set(layers.map(({ rows }) => rows).filter((source) => source !== null))];
  const name = (layer) => (layer < data.count ? `Layer ${layer}` : `Draft block ${layer - data.count}`);
  const role = (layer) => data.roles[layers[layer].role];
  const half = (layer) => (layer >= data.count ? "drafter" : layer < data.decoder ? "encoder" : "decoder");
  const state = () => [Math.min(Math.max(model.get("selected"), 0), layers.length - 1), model.get("phase"), model.get("tokens")];
  const users = (source, key) => layers.flatMap((layer, i) => (layer[key] === source && i !== source ? [i] : []));

  function set(key, value) {
    model.set(key, value);
    model.save_changes();
  }

  // -- the picture ----------------------------------------------------------------------------------------------------

  const cells = layers.map(({ role: kind, rows }, i) => {
    const label = i < data.count ? i : i - data.count;
    const cell = make("button", { type: "button", role: "radio", class: `fl-cell fl-${kind} ${rows === null ? "" : `fl-s${stores.indexOf(rows) % 4}`}`,
      "aria-label": `${name(i)}, ${data.roles[kind][0]}`, "data-key": i },
    make("b", {}, `${label}`), make("span", { class: "fl-short" }, MARK[kind]), make("span", { class: "fl-long" }, data.roles[kind][0]));
    cell.addEventListener("click", () => set("selected", i));
    return cell;
  });
  const part = (title, from, to) => (from === to ? undefined
    : make("div", { class: "fl-part" }, make("p", { class: "fl-title" }, title), make("div", { class: "fl-cells" }, ...cells.slice(from, to))));
  const stage = make("div", { class: "fl-stage", role: "radiogroup", "aria-label": "Layers" },
    part(`Encoder, layers 0–${data.decoder - 1}`, 0, data.decoder),
    part(`Decoder, layers ${data.decoder}–${data.count - 1}`, data.decoder, data.count),
    part("Drafter, beside them", data.count, layers.length));
  stage.addEventListener("keydown", (event) => {
    const at = cells.indexOf(document.activeElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - COLUMNS, ArrowDown: at + COLUMNS, Home: 0, End: cells.length - 1 }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (!cells[to]) return;
    set("selected", to);
    cells[to].focus();
  });

  const phases = Object.entries(WAYS).map(([phase, words]) => {
    const button = make("button", { type: "button", "data-key": phase }, words);
    button.addEventListener("click", () => set("phase", phase));
    return button;
  });
  const range = make("input", { type: "range", min: 0, max: Math.floor(Math.log2(data.most)), step: 1, "aria-label": "Context, in powers of two", "data-key": "range" });
  const number = make("input", { type: "number", min: 1, max: data.most, step: 1, "aria-label": "Context in tokens", "data-key": "tokens" });
  range.addEventListener("input", () => set("tokens", 2 ** range.valueAsNumber));
  number.addEventListener("input", () => { if (number.validity.valid && number.value) set("tokens", number.valueAsNumber); });
  number.addEventListener("blur", () => { number.value = model.get("tokens"); });

  const sample = (kind, words) => make("li", {}, make("i", { class: `fl-key ${kind}`, "aria-hidden": "true" }), words);
  const used = [...new Set(layers.map((layer) => layer.role))];
  const legend = make("ul", { class: "fl-legend" },
    ...used.map((kind) => make("li", {}, make("i", { class: `fl-key fl-${kind}`, "aria-hidden": "true" }, MARK[kind]), data.roles[kind][0])));
  const relations = make("ul", { class: "fl-legend" }, sample("fl-self", "chosen"), sample("fl-source", "it borrows from"),
    sample("fl-user", "borrows its rows"), sample("fl-follower", "borrows its choice"));
  const said = make("p", { class: "fl-head", role: "status" });
  const body = make("div", { class: "fl-body" });
  const total = make("div", { class: "fl-total" });
  const root = make("div", { class: "flay", role: "group", "aria-label": "The layers" },
    make("div", { class: "fl-bar" },
      make("div", { class: "fl-group", role: "group", "aria-label": "What happens" }, ...phases),
      make("div", { class: "fl-group fl-context" }, make("span", { "aria-hidden": "true" }, "Context"), range, number, make("span", { "aria-hidden": "true" }, "tokens"))),
    stage, legend, relations, make("section", { class: "fl-card", "aria-label": "The chosen layer" }, said, body), total);
  el.replaceChildren(root);

  // -- painting -------------------------------------------------------------------------------------------------------

  function paint() {
    const [at, phase, tokens] = state();
    const { rows, choice } = layers[at];
    const sources = [rows, choice].filter((source) => source !== null && source !== at);
    const readers = users(at, "rows"), followers = users(at, "choice");
    cells.forEach((cell, i) => {
      cell.setAttribute("aria-checked", i === at);
      cell.tabIndex = i === at ? 0 : -1;
      cell.classList.toggle("fl-self", i === at);
      cell.classList.toggle("fl-source", sources.includes(i));
      cell.classList.toggle("fl-user", readers.includes(i) && !followers.includes(i));
      cell.classList.toggle("fl-follower", followers.includes(i));
    });
    phases.forEach((button) => button.setAttribute("aria-pressed", button.dataset.key === phase));
    range.value = Math.round(Math.log2(tokens));
    range.setAttribute("aria-valuetext", `${count(2 ** range.value)} tokens`);
    if (document.activeElement !== number || number.valueAsNumber !== tokens) number.value = tokens;
    const head = [make("b", {}, name(at)), " ", make("strong", {}, role(at)[0]), " ", make("small", {}, half(at))];
    if (said.textContent !== head.map((item) => item.textContent ?? item).join("")) said.replaceChildren(...head);
    body.replaceChildren(...card(at, phase, tokens));
    total.replaceChildren(...totals(phase, tokens));
  }

  function card(at, phase, tokens) {
    const moved = rules.traffic(data, at, phase, tokens), step = phase === "decode";
    const { role: kind, ratio, rows } = layers[at];
    const sentence = role(at)[1] + (kind === "reindex" && at > data.candidateSource && data.candidateSource !== null
      ? ` It looks only inside the candidates of layer ${data.candidateSource}.` : "") + (at === data.candidateSource ? " It also names the candidates for the Reindex layers after it." : "");
    const engram = data.engram.includes(at) ? " Engram adds its rows to the streams before it." : "";
    const through = kind === "draft" ? "The prompt only fills its ring." : `It runs on ${count(moved.queries)} of ${count(tokens)} prompt tokens.`;
    return [make("p", {}, sentence + engram + (step ? "" : ` ${through}`)),
      make("div", { class: "fl-lists" },
        list("Keeps", keeps(at)),
        list(step ? "Reads in this step" : "Reads, each row once", reads(at, moved, step)),
        list(step ? "Writes in this step" : "Writes", writes(moved.writes, step, ratio)),
        list("Borrows and lends", family(at, rows)))];
  }

  function keeps(at) {
    const { role: kind, ratio } = layers[at], size = data.bytes;
    const ring = fact(`a ring of ${count(data.window)} window rows:`, bytes(data.window * size.window), ", whatever the length");
    if (kind !== "full") return [fact("for each token:", "0 B"), ring];
    const both = size.rows + size.keys;
    return [fact("for each token:", bytes(both / ratio), ratio > 1 ? ` (${size.rows} + ${size.keys} B for ${ratio} tokens)` : ` (row ${size.rows} B, index key ${size.keys} B)`),
      ring, ...(ratio > 1 ? [fact("an open group:", bytes(ratio * size.pair), " at most")] : [])];
  }

  function reads(at, { reads: moved, scores }, step) {
    const { rows } = layers[at], from = rows === at ? "its own store" : `layer ${rows}`, size = data.bytes, lines = [];
    if (!sum(moved)) return [fact("nothing", "")];
    lines.push(fact(`${count(moved.window)} window rows, its own:`, bytes(moved.window * size.window)));
    if (moved.rows !== undefined) lines.push(fact(`${step ? "" : "up to "}${count(moved.rows)} rows of ${from}:`, bytes(moved.rows * size.rows)));
    if (moved.keys !== undefined) lines.push(fact(`${count(moved.keys)} index keys of ${from}:`, bytes(moved.keys * size.keys)));
    if (moved.pair) lines.push(fact("the parked half of a pair:", bytes(moved.pair * size.pair)));
    if (scores && !step) lines.push(fact("index scores, over all its tokens:", count(scores)));
    return lines;
  }

  function writes(moved, step, ratio) {
    const size = data.bytes, lines = [fact(`${count(moved.window)} window row${moved.window > 1 ? "s" : ""}:`, bytes(moved.window * size.window))];
    if (moved.rows) lines.push(fact(`${count(moved.rows)} row${moved.rows > 1 ? "s" : ""} and as many index keys:`, bytes(moved.rows * (size.rows + size.keys))));
    if (moved.pair) lines.push(fact("half a pair, parked in float32:", bytes(moved.pair * size.pair)));
    if (step && ratio > 1 && moved.rows === 0) lines.push(make("li", {}, "no row: the pair is still open"));
    return lines;
  }

  function family(at, rows) {
    const { choice } = layers[at];
    const say = (words, key) => { const found = users(at, key); return found.length ? [fact(words, ranges(found))] : []; };
    const own = [rows === null ? make("li", {}, "no compressed rows") : fact("it reads the rows of", rows === at ? "its own store" : `layer ${rows}`),
      ...(choice === null ? [] : [fact("it uses the choice of", choice === at ? "its own indexer" : `layer ${choice}`)])];
    return [...own, ...say("its rows are also read by", "rows"), ...say("its choice is also used by", "choice")];
  }

  function fact(words, value, after = "") { return make("li", {}, `${words} `, make("span", { class: "fl-value" }, value), after); }
  function list(title, items) { return make("div", {}, make("h4", { "aria-hidden": "true" }, title), make("ul", { "aria-label": title }, ...items)); }

  // Storage per token beside what a step reads: two quantities that are easily taken for one.
  function totals(phase, tokens) {
    const step = phase === "decode", moved = rules.totals(data, phase, tokens), read = sum(moved.reads), wrote = sum(moved.writes);
    const names = { window: "window rows", rows: step ? "chosen rows" : "rows, up to", keys: "index keys", pair: "parked pairs" };
    const parts = Object.entries(moved.reads).filter(([, value]) => value);
    const bar = make("div", { class: "fl-share", "aria-hidden": "true" });
    for (const [key, value] of parts) {
      const piece = make("i", { class: `fl-${key}` });
      piece.style.flexGrow = value / read;
      bar.append(piece);
    }
    return [make("p", { class: "fl-title" }, `All ${data.count} layers, ${step ? "one decode step" : "a prompt"} at ${count(tokens)} tokens`),
      make("dl", {}, ...[["kept for each token", bytes(data.perToken)], [step ? "read in this step" : "read, each row once per layer", bytes(read)],
        [step ? "written in this step" : "written", bytes(wrote)]].map(([what, value]) => make("div", {}, make("dt", {}, what), make("dd", {}, value)))),
      bar, make("ul", { class: "fl-legend" }, ...parts.map(([key, value]) => make("li", {}, make("i", { class: `fl-key fl-${key}`, "aria-hidden": "true" }), `${names[key]} `,
        make("span", { class: "fl-value" }, bytes(value)))))];
  }

  const theme = () => { root.dataset.theme = isDark(el) ? "dark" : "light"; };
  const keys = ["change:selected", "change:phase", "change:tokens"];
  for (const key of keys) model.on(key, paint);
  theme();
  paint();
  const themes = new MutationObserver(theme);
  for (const host of [document.documentElement, document.body])
    themes.observe(host, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "theme", "class"] });
  return () => {
    themes.disconnect();
    for (const key of keys) model.off(key, paint);
  };
}

export default { render, rules };
