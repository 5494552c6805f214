// The map of the model: ten real buttons in four columns over a hidden drawing of the edges, a card, and the path of a token.
// One module for two hosts; see host.py. The model holds `data` and `selected`; the rest is the view's own.
// Uses kit.js, which the host puts before it.

const SVG = "http://www.w3.org/2000/svg";
const STEP_MS = 2800;

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// A line and its head, apart because only the line is ever dashed.
function arrow(kind, run = "", head = "") {
  const group = svg("g", { class: `fm-${kind}` });
  group.append(svg("path", { d: run }), svg("path", { d: head }));
  return group;
}

// Dark or light by the colour that text really has here, whatever the host calls its theme.
function isDark(element) {
  const [r, g, b] = (getComputedStyle(element).color.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 140;
}

function remembered(key, value) {
  try {
    if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch { return null; } // a frame or a browser that keeps nothing
}

function render({ model, el }) {
  el.addEventListener("focusin", ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }); // or JupyterLab takes its arrow keys
  const data = model.get("data");
  const page = model.get("page");
  const id = `fmap${++serial}`;
  const blocks = new Map(data.blocks.map((block) => [block.label, block]));
  const codes = data.languages.map(([code]) => code);
  const stored = remembered("flash41-language");
  const view = { language: codes.includes(stored) && page ? stored : data.language, column: 0, bare: false, mode: "", step: 0, seen: "" };
  let parts, timer;

  const text = (words) => (typeof words === "string" ? words : words[codes.indexOf(view.language)]);
  const ui = (key) => text(data.ui[key]);
  const path = () => data.paths.find((each) => each.mode === view.mode);
  const selected = () => (blocks.has(model.get("selected")) ? model.get("selected") : "");

  function select(label) {
    model.set("selected", label);
    model.save_changes();
    if (page) history.replaceState(history.state, "", label ? `#${label}` : location.pathname + location.search);
  }

  // -- what is on the picture ---------------------------------------------------------------------------------------------

  function build() {
    const focus = document.activeElement?.dataset?.key;
    const root = make("div", { class: "fmap", role: "group", "aria-label": ui("title"), lang: view.language });
    const stage = make("div", { class: "fm-stage" });
    const drawing = svg("svg", { class: "fm-edges", "aria-hidden": "true" });
    const nodes = new Map(), titles = [], edges = [];
    for (const [source, target, kind] of data.edges) {
      if (!source || !target) continue;
      const line = arrow(kind);
      drawing.append(line);
      edges.push({ source, target, kind, line, paths: [...line.children] });
    }
    stage.append(drawing);
    for (const { number, title } of data.columns) {
      const name = `${number} · ${text(title)}`.replace(/ (?=[B&] ?)/g, "\u00a0"); // "890 B" and "& mHC" stay together
      const own = data.blocks.filter((block) => block.column === number);
      const heading = press({ class: "fm-title", "data-key": `c${number}`, title: `${ui("filter")}: ${name}` }, () => filter(number), name);
      const stack = make("div", { class: "fm-stack" });
      for (const block of own) {
        const node = press({ class: "fm-node", "data-key": block.label }, () => select(selected() === block.label ? "" : block.label),
          make("b", {}, block.label), " ", make("span", { class: "fm-short" }, text(block.short)),
          make("span", { class: "fm-long" }, text(block.name)), " ", make("span", { class: "fm-tag" }, text(block.tag)));
        node.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") see(block.label); });
        node.addEventListener("pointerleave", () => see(""));
        node.addEventListener("focus", () => see(block.label));
        node.addEventListener("blur", () => see(""));
        nodes.set(block.label, node);
        stack.append(node);
      }
      titles.push(heading);
      stage.append(make("div", { class: `fm-column fm-c${number}`, role: "group", "aria-label": name }, heading, stack));
    }
    stage.addEventListener("keydown", walk);
    const all = press({ "data-key": "all" }, () => filter(0), ui("all"));
    const overlay = press({ "data-key": "overlay" }, () => { view.bare = !view.bare; paint(); });
    const modes = data.paths.map(({ mode, name }) => press({ "data-key": mode }, () => follow(view.mode === mode ? "" : mode), text(name)));
    const play = press({ class: "fm-play", "data-key": "play" }, toggle);
    const step = make("p", { class: "fm-step", role: "status" });
    const card = make("section", { class: "fm-card", "aria-label": ui("block") });
    root.append(
      make("div", { class: "fm-bar" },
        make("div", { class: "fm-group", role: "group", "aria-label": ui("filter") }, all, overlay),
        make("div", { class: "fm-group fm-languages", role: "group", "aria-label": ui("language") },
          ...data.languages.map(([code, name]) => press({ lang: code, "data-key": code, "aria-pressed": code === view.language },
            () => speak(code), name)))),
      stage,
      make("div", { class: "fm-bar" },
        make("div", { class: "fm-group fm-modes", role: "group", "aria-label": ui("path") }, ...modes),
        make("div", { class: "fm-group", role: "group", "aria-label": ui("step") },
          press({ "data-key": "back", "aria-label": ui("back"), title: ui("back") }, () => go(-1), "←"), play,
          press({ "data-key": "next", "aria-label": ui("next"), title: ui("next") }, () => go(1), "→"))),
      step, card);
    root.addEventListener("keydown", (event) => { if (event.key === "Escape" && selected()) leave(); });
    parts = { root, stage, drawing, nodes, titles, edges, all, overlay, modes, play, step, card };
    el.replaceChildren(root);
    theme();
    paint();
    layout();
    if (focus) root.querySelector(`[data-key="${focus}"]`)?.focus();
  }

  // -- what the reader does -----------------------------------------------------------------------------------------------

  function leave() { parts.nodes.get(selected()).focus(); select(""); }
  function see(label) { view.seen = label; paint(); }
  function filter(column) { view.column = view.column === column ? 0 : column; paint(); }
  function speak(language) { view.language = language; remembered("flash41-language", language); build(); }

  function stop() { clearInterval(timer); timer = undefined; }
  function follow(mode) { stop(); view.mode = mode; view.step = 0; paint(); }
  function go(by) {
    stop();
    if (!view.mode) return follow(data.paths[0].mode);
    const to = view.step + by;
    if (to < 0) return follow("");
    view.step = Math.min(to, path().steps.length - 1);
    paint();
  }
  function toggle() {
    if (timer) { stop(); return paint(); }
    if (!view.mode) view.mode = data.paths[0].mode;
    else if (view.step === path().steps.length - 1) view.step = 0;
    timer = setInterval(() => {
      if (!el.isConnected) return stop();
      view.step += 1;
      if (view.step >= path().steps.length - 1) stop();
      paint();
    }, STEP_MS);
    paint();
  }

  // Arrows follow the picture: up and down in a column, left and right to the nearest block of the next one.
  function walk(event) {
    const at = data.blocks.find((block) => parts.nodes.get(block.label) === document.activeElement);
    if (!at) return;
    const middle = (block) => { const box = parts.nodes.get(block.label).getBoundingClientRect(); return box.top + box.height / 2; };
    const column = (number) => data.blocks.filter((block) => block.column === number).sort((a, b) => middle(a) - middle(b));
    const near = (list) => list.toSorted((a, b) => Math.abs(middle(a) - middle(at)) - Math.abs(middle(b) - middle(at)))[0];
    const own = column(at.column), place = own.indexOf(at);
    const to = {
      ArrowUp: () => own[place - 1], ArrowDown: () => own[place + 1],
      ArrowLeft: () => near(column(at.column - 1)), ArrowRight: () => near(column(at.column + 1)),
      Home: () => data.blocks[0], End: () => data.blocks.at(-1),
    }[event.key];
    if (!to || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const block = to();
    if (block) parts.nodes.get(block.label).focus();
  }

  // -- painting -----------------------------------------------------------------------------------------------------------

  function paint() {
    const { root, nodes, titles, edges, all, overlay, modes, play, step } = parts;
    const steps = path()?.steps.slice(0, view.step + 1) ?? [];
    const now = steps.at(-1);
    const been = new Set(steps.map(([label]) => label));
    const key = ([source, target]) => `${source}>${target}`;
    const used = new Set(steps.flatMap(([, pairs]) => pairs.map(key))), busy = new Set(now?.[1].map(key));
    const shown = view.seen || selected();
    const outside = (label) => view.column > 0 && blocks.get(label).column !== view.column;
    root.classList.toggle("fm-bare", view.bare);
    root.classList.toggle("fm-onpath", Boolean(now));
    all.setAttribute("aria-pressed", view.column === 0);
    overlay.textContent = ui(view.bare ? "show" : "hide");
    titles.forEach((title, i) => title.setAttribute("aria-pressed", view.column === data.columns[i].number));
    modes.forEach((button, i) => button.setAttribute("aria-pressed", view.mode === data.paths[i].mode));
    play.textContent = ui(timer ? "pause" : "play");
    for (const [label, node] of nodes) {
      node.setAttribute("aria-pressed", label === selected());
      node.classList.toggle("fm-off", outside(label));
      node.classList.toggle("fm-been", been.has(label));
      node.classList.toggle("fm-now", now?.[0] === label);
    }
    for (const { source, target, line } of edges) {
      const pair = key([source, target]);
      line.classList.toggle("fm-off", outside(source) && outside(target));
      line.classList.toggle("fm-hot", source === shown || target === shown);
      line.classList.toggle("fm-been", used.has(pair));
      line.classList.toggle("fm-now", busy.has(pair));
    }
    const words = now ? `${view.step + 1} / ${path().steps.length} · ${now[0]} · ${text(now[2])}` : "";
    if (step.textContent !== words) step.textContent = words;
    show(shown);
  }

  // Under a mouse or the focus a card shows its head; pressed, all of it. A glance at another block leaves the height as it is.
  function show(label) {
    const { card } = parts, glance = label !== selected(), shows = `${label} ${glance}`;
    if (parts.shows === shows) return; // a card rebuilt under the finger would lose the press
    parts.shows = shows;
    card.style.minHeight = glance && selected() ? `${card.offsetHeight}px` : "";
    card.className = `fm-card fm-c${blocks.get(label)?.column ?? 0}`;
    card.replaceChildren(...(label ? cardOf(blocks.get(label), glance) : legend()));
  }

  function legend() {
    const line = (kind, words) => {
      const sample = svg("svg", { class: "fm-sample", viewBox: "0 0 34 10", "aria-hidden": "true" });
      sample.append(arrow(kind, "M1 5H31", "M27.5 1.5L31 5L27.5 8.5"));
      return make("li", {}, sample, " ", words);
    };
    return [make("p", { class: "fm-hint" }, ui("hint")),
      make("ul", { class: "fm-legend" }, line("flow", ui("flow")), line("store", ui("store")), line("back", ui("loop")))];
  }

  function cardOf(block, glance) {
    const column = data.columns.find(({ number }) => number === block.column);
    return [
      make("p", { class: "fm-head" }, make("b", {}, block.label), make("strong", {}, text(block.name)),
        make("small", {}, `${ui("column")} ${column.number} · ${text(column.title)}`),
        glance ? "" : press({ class: "fm-close", "aria-label": ui("close"), title: ui("close") }, leave, "×")),
      make("p", { class: "fm-purpose" }, text(block.purpose)),
      glance ? "" : make("div", { class: "fm-lists" },
        list(ui("in"), data.edges.filter((edge) => edge[1] === block.label).map((edge) => move(edge[0], edge))),
        list(ui("out"), data.edges.filter((edge) => edge[0] === block.label).map((edge) => move(edge[1], edge))),
        list(ui("numbers"), block.facts.map(fact)),
        block.trace ? list(ui("trace"), block.trace.map(fact)) : undefined,
        list(ui("links"), block.links.map(link))),
      block.reading && !glance ? make("p", { class: "fm-reading" }, text(block.reading)) : "",
    ].filter(Boolean);
  }

  function list(title, items) {
    return make("div", {}, make("p", { class: "fm-label", "aria-hidden": "true" }, title), make("ul", { "aria-label": title }, ...items));
  }

  function fact({ what, value }) { return make("li", {}, `${text(what)} `, make("span", { class: "fm-value" }, value)); }

  function move(other, [, , , what, shape]) {
    const name = other ? `${other}, ${text(blocks.get(other).name)}` : ui("world");
    const at = other ? press({ class: "fm-jump", "aria-label": name, title: name }, () => { select(other); parts.nodes.get(other).focus(); }, other)
      : make("span", { class: "fm-world" }, ui("world"));
    return make("li", { class: "fm-move" }, at, make("span", {}, `${text(what)} `, make("code", {}, shape)));
  }

  // A page of this book is one link away; from a notebook the way leads to the repository. What does not exist is no link.
  function link({ kind, path: file, ready }) {
    const name = file.replace(/^(book|labs\/student\/\w+|labs)\//, "").replace(/\.(ipynb|md)$/, "");
    if (!ready) return make("li", {}, `${ui(kind)} `, make("span", { class: "fm-later" }, `${name} (${ui("later")})`));
    const up = document.documentElement.dataset.content_root ?? "./";
    const local = page && /\.(ipynb|md)$/.test(file);
    const href = local ? up + file.replace(/\.\w+$/, ".html") : `${data.repository}/${file.includes(".") ? "blob" : "tree"}/main/${file}`;
    return make("li", {}, `${ui(kind)} `, make("a", { href, ...(local ? {} : { target: "_blank", rel: "noopener" }) }, local ? name : `${name} ↗`));
  }

  // -- where lines run ----------------------------------------------------------------------------------------------------

  function layout() {
    const { stage, nodes, edges } = parts;
    const frame = stage.getBoundingClientRect();
    if (!frame.width) return;
    const boxes = new Map([...nodes].map(([label, node]) => {
      const { left, top, width, height } = node.getBoundingClientRect();
      return [label, { l: left - frame.left, t: top - frame.top, r: left - frame.left + width, b: top - frame.top + height,
        x: left - frame.left + width / 2, y: top - frame.top + height / 2, w: width, h: height }];
    }));
    const ends = new Map(); // "6A left" -> what is fastened there, so that no two lines share a point
    const routes = edges.map((edge) => {
      const s = boxes.get(edge.source), t = boxes.get(edge.target), across = blocks.get(edge.target).column - blocks.get(edge.source).column;
      const around = Math.abs(across) > 1;
      const [from, to] = around ? ["right", "left"] : across ? (across > 0 ? ["right", "left"] : ["left", "right"])
        : s.y < t.y ? ["bottom", "top"] : ["top", "bottom"];
      const route = { ...edge, s, t, from, to, around, high: s.y < frame.height / 2 };
      for (const [label, side, other] of [[edge.source, from, t], [edge.target, to, s]]) {
        const name = `${label} ${side}`;
        ends.set(name, [...(ends.get(name) ?? []), { edge, towards: around ? (route.high ? -1e4 : 1e4) : other.y }]);
      }
      return route;
    });
    const point = (edge, label, side) => {
      const box = boxes.get(label), list = ends.get(`${label} ${side}`).toSorted((a, b) => a.towards - b.towards);
      const upright = side === "left" || side === "right";
      const gap = Math.min(20, (upright ? box.h : box.w) / (list.length + 1));
      const shift = gap * (list.findIndex((end) => end.edge === edge) - (list.length - 1) / 2);
      return upright ? [side === "left" ? box.l : box.r, box.y + shift] : [box.x + shift, side === "top" ? box.t : box.b];
    };
    routes.forEach((route, i) => {
      const [x1, y1] = point(edges[i], route.source, route.from), [x2, y2] = point(edges[i], route.target, route.to);
      trace(route, x1, y1, x2, y2, frame).forEach((d, part) => edges[i].paths[part].setAttribute("d", d));
    });
  }

  // The path of a line and the path of its head, which stops short of the button.
  function trace({ from, to, around, high }, x1, y1, x2, y2, frame) {
    const head = 4, upright = to === "top" || to === "bottom", outward = to === "left" || to === "top" ? -1 : 1;
    const [x, y] = upright ? [x2, y2 + outward * 2.5] : [x2 + outward * 2.5, y2];
    const [tx, ty] = [x + (upright ? 0 : outward * head), y + (upright ? outward * head : 0)];
    const tip = upright ? `M${tx - head} ${ty}L${x} ${y}L${tx + head} ${ty}` : `M${tx} ${ty - head}L${x} ${y}L${tx} ${ty + head}`;
    if (around) { // out to the edge of the picture, along it, and in again
      const r = 8, right = frame.width - 3, left = 3, rim = high ? 3 : frame.height - 3, turn = high ? -r : r;
      return [`M${x1} ${y1}H${right - r}Q${right} ${y1} ${right} ${y1 + turn}V${rim - turn}Q${right} ${rim} ${right - r} ${rim}H${left + r}`
        + `Q${left} ${rim} ${left} ${rim - turn}V${y + turn}Q${left} ${y} ${left + r} ${y}H${x}`, tip];
    }
    if (upright) return [`M${x1} ${y1}L${x} ${y}`, tip];
    const bend = Math.max(10, Math.abs(x - x1) * 0.6), leave = from === "left" ? -bend : bend;
    return [`M${x1} ${y1}C${x1 + leave} ${y1} ${x + outward * bend} ${y} ${x} ${y}`, tip];
  }

  function theme() { parts.root.dataset.theme = isDark(el) ? "dark" : "light"; }

  function opened() {
    const label = location.hash.slice(1);
    if (!blocks.has(label) || document.querySelector(".fmap") !== parts.root) return;
    model.set("selected", label);
    parts.root.scrollIntoView({ block: "nearest" });
  }

  model.on("change:selected", paint);
  build();
  const sizer = new ResizeObserver(layout);
  sizer.observe(el);
  const themes = new MutationObserver(theme);
  for (const host of [document.documentElement, document.body])
    themes.observe(host, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "theme", "class"] });
  if (page) {
    opened();
    addEventListener("hashchange", opened);
  }
  return () => {
    stop();
    sizer.disconnect();
    themes.disconnect();
    removeEventListener("hashchange", opened);
    model.off("change:selected", paint);
  };
}

export default { render };
