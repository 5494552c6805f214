// What one token sees: a picture of all query tokens against the compressed rows, and the same for one of them on its passage.
// The state is `layer` and `query`; the choice of rows is recorded, every other set follows from `rules`.
// Uses kit.js, which the host puts before it.

const SVG = "http://www.w3.org/2000/svg";
const MARK = { window: "W", full: "F", reindex: "I", reuse: "·" };
const ROLE = { window: "Window", full: "Full", reindex: "Reindex", reuse: "Reuse" };

const rules = {
  visible: (t, ratio) => Math.floor((t + 1) / ratio),
  window: (t, size) => [Math.max(0, t - size + 1), t],
  covers: (row, ratio) => [row * ratio, row * ratio + ratio - 1],
  newest: (visible, group) => Math.floor(Math.max(visible - 1, 0) / group),
  // Set bits of a hexadecimal mask, the last digit first.
  places: (mask) => [...mask].reverse().flatMap((digit, i) => [0, 1, 2, 3].filter((bit) => parseInt(digit, 16) >> bit & 1).map((bit) => 4 * i + bit)),
  rowsOf: (groups, group, visible) => groups.flatMap((g) => Array.from({ length: group }, (_, i) => g * group + i)).filter((row) => row < visible),
};

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function isDark(element) {
  const [r, g, b] = (getComputedStyle(element).color.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 140;
}

// One box per run of neighbouring rows, one unit high, at the height of its query.
function boxes(rows, t, ratio) {
  let path = "";
  for (let i = 0; i < rows.length;) {
    let j = i + 1;
    while (j < rows.length && rows[j] === rows[j - 1] + 1) j++;
    path += `M${rows[i] * ratio} ${t}h${(j - i) * ratio}v1h${-(j - i) * ratio}z`;
    i = j;
  }
  return path;
}

function render({ model, el }) {
  el.addEventListener("focusin", ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }); // or JupyterLab takes its arrow keys
  const data = model.get("data"), { tokens, layers } = data, length = tokens.length;
  const quoted = (text) => `“${text.replaceAll("\n", "⏎")}”`;
  const bound = (value, most) => Math.min(Math.max(Math.trunc(value) || 0, 0), most);
  const state = () => [bound(model.get("layer"), layers.length - 1), bound(model.get("query"), length - 1)];
  const usesCandidates = (layer) => data.candidateSource !== null && layers[layer].choice > data.candidateSource;
  const namesCandidates = (layer) => layer === data.candidateSource;
  const chosen = (layer, t) => (layers[layer].ratio ? rules.places(data.chosen[layers[layer].choice][t]) : []);
  const candidates = (t) => rules.places(data.candidates[t]);

  function set(key, value) {
    model.set(key, value);
    model.save_changes();
  }

  // -- what is on the picture -------------------------------------------------------------------------------------------

  const buttons = layers.map(({ role }, i) => {
    const button = make("button", { type: "button", "data-key": `layer${i}`, "aria-label": `Layer ${i}, ${ROLE[role]}` },
      make("b", {}, `${i}`), make("span", { class: "vi-short" }, MARK[role]), make("span", { class: "vi-long" }, ROLE[role]));
    button.addEventListener("click", () => set("layer", i));
    return button;
  });
  const slider = make("input", { type: "range", min: 0, max: length - 1, step: 1, "aria-label": "Query token", "data-key": "query" });
  slider.addEventListener("input", () => set("query", slider.valueAsNumber));
  const who = make("output", { class: "vi-who" });

  const plot = svg("svg", { viewBox: `0 0 ${length} ${length}`, preserveAspectRatio: "none", role: "img" });
  const shapes = Object.fromEntries(["seen", "out", "chosen", "window"].map((name) => [name, svg("path", { class: `vi-${name}` })]));
  const line = svg("rect", { class: "vi-line", x: 0, width: length, height: 1 });
  plot.append(...Object.values(shapes), line);
  const point = (event) => {
    const { top, height } = plot.getBoundingClientRect();
    set("query", bound((event.clientY - top) / height * length, length - 1));
  };
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointermove", (event) => { if (event.buttons) point(event); });

  const words = tokens.map((text, i) => make("span", { "data-token": i }, text));
  const passage = make("p", { class: "vi-text" }, ...words);
  passage.addEventListener("click", (event) => {
    const token = event.target.dataset.token;
    if (token !== undefined) set("query", Number(token));
  });
  const facts = make("ul", { class: "vi-facts", "aria-label": "What this token sees" });
  const rowsTitle = make("p", { class: "vi-title" }), rowList = make("ul", { class: "vi-rows" });
  const legend = make("ul", { class: "vi-legend" });
  const said = make("p", { class: "vi-said", role: "status" });
  const root = make("div", { class: "visi", role: "group", "aria-label": "What a token sees" },
    make("div", { class: "vi-bar" }, make("span", { class: "vi-title", "aria-hidden": "true" }, "Layer"),
      make("div", { class: "vi-group", role: "group", "aria-label": "Layer" }, ...buttons)),
    make("div", { class: "vi-bar vi-query" }, make("span", { class: "vi-title", "aria-hidden": "true" }, "Query"), slider, who),
    make("div", { class: "vi-main" },
      make("figure", {}, make("p", { class: "vi-title", "aria-hidden": "true" }, "passage, its compressed rows →"), plot,
        make("p", { class: "vi-title vi-down", "aria-hidden": "true" }, "query token ↓")),
      make("div", {}, said, facts, legend)),
    make("div", { class: "vi-card" }, passage), rowsTitle, rowList);
  el.replaceChildren(root);

  // -- painting -------------------------------------------------------------------------------------------------------------

  let drawn = -1;
  function draw(layer) {
    if (drawn === layer) return;
    drawn = layer;
    const { ratio } = layers[layer], paths = { seen: "", out: "", chosen: "", window: "" };
    for (let t = 0; t < length; t++) {
      if (!ratio) continue;
      const all = rules.visible(t, ratio);
      paths.seen += all ? `M0 ${t}h${all * ratio}v1h${-all * ratio}z` : "";
      if (usesCandidates(layer) || namesCandidates(layer)) {
        const inside = new Set(rules.rowsOf(candidates(t), data.group, all));
        paths.out += boxes(Array.from({ length: all }, (_, row) => row).filter((row) => !inside.has(row)), t, ratio);
      }
      paths.chosen += boxes(chosen(layer, t), t, ratio);
    }
    paths.window = `M0 0${tokens.map((_, t) => `H${t + 1}V${t + 1}`).join("")}${tokens.map((_, t) => `H${rules.window(t, data.window)[0]}V${t}`).reverse().join("")}z`;
    for (const [name, path] of Object.entries(paths)) shapes[name].setAttribute("d", path);
    plot.setAttribute("aria-label", `All ${length} query tokens of layer ${layer}, downwards, and what each sees of the passage, to the right`);
    const sample = (kind, text) => make("li", {}, make("i", { class: `vi-key vi-${kind}`, "aria-hidden": "true" }), text);
    legend.replaceChildren(...[sample("query", "query token"), sample("window", "in its window"),
      ...(ratio ? [sample("chosen", "in a chosen row"), sample("seen", "in a visible row")] : []),
      ...(paths.out ? [sample("out", "no candidate")] : []), sample("none", "not seen")]);
  }

  function paint() {
    const [layer, t] = state(), { role, ratio, choice, rows: source } = layers[layer];
    const all = ratio ? rules.visible(t, ratio) : 0, rows = chosen(layer, t), [first, last] = rules.window(t, data.window);
    draw(layer);
    line.setAttribute("y", t);
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === layer));
    slider.value = t;
    const name = `token ${t}, ${quoted(tokens[t])}`;
    slider.setAttribute("aria-valuetext", name);
    who.textContent = name;
    const groups = usesCandidates(layer) || namesCandidates(layer) ? candidates(t) : null;
    const inside = groups && new Set(rules.rowsOf(groups, data.group, all));
    const picked = new Set(rows.flatMap((row) => range(...rules.covers(row, ratio))));
    words.forEach((word, i) => {
      const row = ratio ? Math.floor(i / ratio) : 0, visible = ratio > 0 && row < all;
      word.className = [i === t && "vi-query", i >= first && i <= last && "vi-window", picked.has(i) && "vi-chosen",
        visible && (!inside || inside.has(row) ? "vi-seen" : "vi-out"), !visible && (i < first || i > last) && "vi-none"].filter(Boolean).join(" ");
    });
    const own = source === layer ? "its own rows" : `the rows of layer ${source}`, pick = choice === layer ? "makes its own choice" : `uses the choice of layer ${choice}`;
    const words_ = ratio ? `Layer ${layer}, ${ROLE[role]}: reads ${own}, ${ratio} token${ratio > 1 ? "s" : ""} to a row, and ${pick}.` : `Layer ${layer}, Window: no compressed rows.`;
    if (said.textContent !== words_) said.textContent = words_;
    const near = rows.filter((row) => rules.covers(row, ratio)[1] >= first).length;
    facts.replaceChildren(fact("window: tokens", `${first}–${last}`, ""),
      ...(ratio ? [fact("visible rows:", `${all}`, ` = ⌊(${t} + 1) / ${ratio}⌋`)] : []),
      ...(groups ? [fact("candidates:", `${groups.length} of ${Math.ceil(all / data.group)}`, ` groups of ${data.group} rows${namesCandidates(layer) ? ", named here for later layers" : ""}`)] : []),
      ...(ratio ? [fact("chosen:", `${rows.length}`, ` rows, at most ${data.topk}; ${near} of them reach into the window`)] : []),
      fact("keys read:", ratio ? `${last - first + 1} + ${rows.length} = ${last - first + 1 + rows.length}` : `${last - first + 1}`, ""));
    rowsTitle.textContent = rows.length ? "The chosen rows, and what each covers" : "";
    rowList.replaceChildren(...rows.map((row) => {
      const [from, to] = rules.covers(row, ratio);
      return make("li", {}, make("small", {}, `${row}`), ` ${quoted(tokens.slice(from, to + 1).join(""))}`);
    }));
  }

  function range(from, to) { return Array.from({ length: to - from + 1 }, (_, i) => from + i); }
  function fact(what, value, after) { return make("li", {}, `${what} `, make("span", { class: "vi-value" }, value), after); }

  const theme = () => { root.dataset.theme = isDark(el) ? "dark" : "light"; };
  const keys = ["change:layer", "change:query"];
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
