// The ladder: every lever of the price of a token, what a session pays, and how real models compare.
// One module for two hosts; see host.py. The pure functions on the default export are compared with the package by a test.
// Uses kit.js, which the host puts before it.

// -- arithmetic: the same numbers as budget.Budget gives for these settings ---

function rowBytes(format, width) { return (width * format.bits) / 8 + (format.group ? width / format.group : 0); }

// Bytes of an entry and its index key, entries per token, bytes per token, bytes of a session, and of the same layers were they MHA.
function price(s, data) {
  const vectors = s.stored === "latent" ? 1 : 2 * s.kv_heads;
  const entry = vectors * rowBytes(data.formats[s.format], s.width), key = data.keys[s.index];
  const alone = s.storing - s.pooling, parts = s.pooling + alone * s.tokens; // entries per s.tokens tokens
  return {
    entry, key, entries: parts / s.tokens, perToken: ((entry + key) * parts) / s.tokens,
    used: (entry + key) * (s.pooling * Math.floor(s.context / s.tokens) + alone * s.context),
    mha: 2 * s.heads * s.width * data.fp16 * s.layers,
  };
}

const span = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const divisors = (n) => span(1, n).filter((k) => n % k === 0);

// What a lever drags along, so that the settings stay those of a model: all heads stored stays so, fewer layers store fewer.
function settle(s, before) {
  const next = { ...s };
  if (next.heads % next.kv_heads || (before.kv_heads === before.heads && next.kv_heads === before.kv_heads))
    next.kv_heads = before.kv_heads === before.heads ? next.heads : divisors(next.heads).findLast((k) => k <= next.kv_heads);
  next.storing = before.storing === before.layers && s.storing === before.storing ? next.layers : Math.min(next.storing, next.layers);
  next.pooling = Math.min(next.pooling, next.storing);
  return next;
}

function bytes(n) {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(n, 1)) / 3)));
  return `${Number((n / 1000 ** power).toPrecision(power ? 3 : 6)).toLocaleString("en-US")} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

function whole(label, least, most, fits = () => "") {
  return (text) => {
    const digits = text.replaceAll(/[,_\s]/g, ""), value = Number(digits);
    if (!/^\d+$/.test(digits) || value < least || value > most())
      throw new Error(`${label}: a whole number from ${grouped(least)} to ${grouped(most())}.`);
    if (fits(value)) throw new Error(`${label}: ${fits(value)}.`);
    return value;
  };
}

function render({ model, el }) {
  el.addEventListener("focusin", ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }); // or JupyterLab takes its arrow keys
  const data = model.get("data");
  const now = () => model.get("settings");
  const put = (change) => {
    model.set("settings", settle({ ...now(), ...change }, now()));
    model.save_changes();
  };
  const lever = (key, label, choices, least, most, fits, note) =>
    dial({ key, label, choices, note, show: grouped, parse: whole(label, least, most, fits) }, (value) => put({ [key]: value }));
  const most = () => data.most;
  const levers = {
    heads: lever("heads", "Query heads", divisors(128), 1, most),
    kv_heads: lever("kv_heads", "Stored heads", [], 1, () => now().heads,
      (n) => (now().heads % n ? `must divide the ${now().heads} query heads` : "")),
    width: lever("width", "Width", data.widths, 32, () => data.widths.at(-1), (n) => (n % 32 ? "a multiple of 32" : "")),
    layers: lever("layers", "Layers", span(1, data.most), 1, most),
    storing: lever("storing", "Storing layers", [], 1, () => now().layers),
    pooling: lever("pooling", "Pooling layers", [], 0, () => now().storing),
    tokens: lever("tokens", "Tokens per entry", [1, 2, 4, 8, 16, 32, 64, 128], 1, most),
    context: lever("context", "Context", data.contexts, 1, () => data.contexts.at(-1)),
  };
  const stored = buttons("Kept", [["pair", "key and value"], ["latent", "one latent is both"]], (key) => put({ stored: key }));
  const format = buttons("Bits per number", Object.entries(data.formats).map(([name, { bits, group }]) =>
    [name, `${name.toUpperCase()}: ${bits + (group ? 8 / group : 0)}`]), (key) => put({ format: key }));
  const index = buttons("Index key",
    Object.entries(data.keys).map(([name, size]) => [name, size ? `${name.toUpperCase()}: ${size} B` : "none"]), (key) => put({ index: key }));
  // "FP4" names a format of numbers and one of keys: in `data-key` the second carries its group.
  for (const button of index.row.querySelectorAll("button")) button.dataset.key = `index-${button.dataset.key}`;
  const rungs = buttons("Rungs", data.rungs.map(([key, name]) => [`rung-${key}`, name]),
    (key) => put({ ...data.rungs.find(([name]) => `rung-${name}` === key)[2], context: now().context }));
  const models = buttons("Models", data.models.map(([name]) => [name, name]), (key) => put(data.models.find(([name]) => name === key)[1]));
  const number = make("p", { class: "fx-big" }), sum = make("p", { class: "fl-sum" }), total = make("p"), factor = make("p");
  const bars = make("ul", { class: "fl-bars", "aria-label": "Bytes per token, logarithmic" });
  const root = make("div", { class: "fx fx-ladder", role: "group", "aria-label": "Price of a token" },
    make("div", { class: "fx-controls" }, rungs.row, models.row),
    make("div", { class: "fl-two" },
      make("div", { class: "fx-controls fl-levers" }, levers.heads.row, stored.row, levers.kv_heads.row, levers.width.row, format.row, levers.layers.row,
        levers.storing.row, levers.pooling.row, levers.tokens.row, index.row, levers.context.row),
      make("section", { class: "fx-out", "aria-label": "Result" }, make("div", { role: "status" }, number, sum), total, factor),
      bars));

  function paint() {
    const s = now(), found = price(s, data);
    const same = (other) => Object.entries(other).every(([key, value]) => key === "context" || s[key] === value);
    rungs.set(`rung-${data.rungs.find(([, , other]) => same(other))?.[0]}`);
    models.set(data.models.find(([, other]) => same(other))?.[0]);
    stored.set(s.stored);
    format.set(s.format);
    for (const button of index.row.querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.key === `index-${s.index}`);
    levers.heads.set(s.heads);
    levers.kv_heads.set(s.stored === "latent" ? 1 : s.kv_heads, divisors(s.heads), s.stored === "latent");
    levers.storing.set(s.storing, span(1, s.layers));
    levers.pooling.set(s.pooling, span(0, s.storing));
    levers.tokens.set(s.tokens, undefined, s.pooling === 0);
    for (const key of ["width", "layers", "context"]) levers[key].set(s[key]);
    number.replaceChildren(grouped(found.perToken), " ", make("small", {}, "bytes per token"));
    const key = found.key ? ` + ${found.key} B index key` : "";
    sum.textContent = `${key ? "(" : ""}${grouped(found.entry)} B entry${key}${key ? ")" : ""} × ${grouped(found.entries)} entries per token`;
    total.replaceChildren(make("b", {}, bytes(found.used)), ` at ${grouped(s.context)} tokens`);
    factor.replaceChildren(make("b", {}, `1 / ${grouped(Number((found.mha / found.perToken).toPrecision(4)))}`),
      ` of MHA with these heads, width and layers in 16 bits`);
    const rows = [["Your settings", found.perToken, true], ...data.known].sort((a, b) => b[1] - a[1] || (b[2] ? 1 : -1));
    bars.replaceChildren(...rows.map(([name, value, own]) => {
      const bar = make("span", { class: "fl-bar", "aria-hidden": "true" });
      bar.style.setProperty("--at", Math.min(1, Math.max(0.01, Math.log10(value / 100) / 5)));
      return make("li", own ? { class: "fl-own" } : {}, make("span", {}, name), bar, make("span", { class: "fl-value" }, grouped(value)));
    }), make("li", { class: "fl-axis" }, "bytes per token, logarithmic: 100 B to 10 MB; records of released models, without windows"));
  }

  el.replaceChildren(root);
  const end = themed(el, root);
  model.on("change:settings", paint);
  paint();
  return () => { end(); model.off("change:settings", paint); };
}

export default { render, price, settle };
