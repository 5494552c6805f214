// Mixing: sixteen logits become a doubly stochastic matrix, one division at a time.
// One module for two hosts; see host.py. The pure functions on the default export are compared with the package by a test.
// Uses kit.js, which the host puts before it.

// -- arithmetic: mhc.sinkhorn_plain, with every matrix on the way ---

const sumOf = (list) => list.reduce((sum, value) => sum + value, 0);
const rowSums = (mix) => mix.map(sumOf);
const columnSums = (mix) => mix[0].map((_, j) => sumOf(mix.map((row) => row[j])));

// The softmax of each row, then columns and rows divided by their sums in turn: 2 * rounds matrices, columns last.
function sinkhorn(logits, rounds, eps) {
  let mix = logits.map((row) => {
    const most = Math.max(...row), powers = row.map((value) => Math.exp(value - most)), total = sumOf(powers);
    return powers.map((power) => power / total + eps);
  });
  const all = [mix];
  for (let step = 1; step < 2 * rounds; step++) {
    const totals = (step % 2 ? columnSums(mix) : rowSums(mix)).map((total) => total + eps);
    mix = mix.map((row, i) => row.map((value, j) => value / totals[step % 2 ? j : i]));
    all.push(mix);
  }
  return all;
}

// The largest distance of a row sum, and of a column sum, from 1.
function errors(mix) {
  const worst = (sums) => Math.max(...sums.map((total) => Math.abs(total - 1)));
  return { rows: worst(rowSums(mix)), columns: worst(columnSums(mix)) };
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}
const raised = (n) => String(n).replace("-", "⁻").replaceAll(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
function power(value) {
  const [digits, exponent] = value.toExponential(1).split("e");
  return value < 1e-3 && value ? `${digits} × 10${raised(Number(exponent))}` : value.toPrecision(2);
}

function render({ model, el }) {
  el.addEventListener("focusin", ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }); // or JupyterLab takes its arrow keys
  const data = model.get("data"), last = 2 * data.rounds - 1;
  const now = () => ({ logits: model.get("logits"), step: model.get("step") });
  const put = (key, value) => { model.set(key, value); model.save_changes(); };
  const go = (by) => put("step", Math.max(0, Math.min(last, now().step + by)));
  const streams = now().logits.map((_, i) => i);

  const presets = buttons("Start from", data.presets.map(([key, name]) => [key, name]), (key) =>
    put("logits", data.presets.find(([name]) => name === key)[2].map((row) => [...row])));
  const wrong = make("p", { class: "fx-error", role: "alert" });
  const cells = streams.map((i) => streams.map((j) => {
    const cell = make("input", { type: "number", step: "0.5", min: -data.largest, max: data.largest, "data-key": `l${i}${j}`,
      "aria-label": `Logit from ${i} to ${j}` });
    cell.addEventListener("input", () => {
      const value = Number(cell.value), fine = cell.value !== "" && Math.abs(value) <= data.largest;
      cell.setAttribute("aria-invalid", !fine);
      wrong.textContent = fine ? "" : `From ${i} to ${j}: a number from −${data.largest} to ${data.largest}.`;
      if (fine) put("logits", now().logits.map((row, k) => row.map((old, n) => (k === i && n === j ? value : old))));
    });
    return cell;
  }));
  const heads = () => streams.map((j) => make("th", { scope: "col" }, `to ${j}`));
  const logits = make("table", { class: "fi-logits" }, make("caption", {}, "Logits"),
    make("thead", {}, make("tr", {}, make("td", {}), ...heads())),
    make("tbody", {}, ...cells.map((row, i) => make("tr", {}, make("th", { scope: "row" }, `from ${i}`), ...row.map((cell) => make("td", {}, cell))))));
  const mixed = make("table", { class: "fi-mix" });
  const slider = make("input", { type: "range", min: 0, max: last, step: 1, "data-key": "step", "aria-label": "Step" });
  slider.addEventListener("input", () => put("step", Number(slider.value)));
  const back = press({ "data-key": "back", "aria-label": "One step back" }, () => go(-1), "←");
  const next = press({ "data-key": "next", "aria-label": "One step on" }, () => go(1), "→");
  const said = make("p", { class: "fi-said", role: "status" });
  const chart = svg("svg", { class: "fi-chart", role: "img", "aria-label": "Errors by step, on a logarithmic axis" });
  const root = make("div", { class: "fx fx-mixing", role: "group", "aria-label": "Sinkhorn, step by step" },
    make("div", { class: "fx-controls" }, presets.row),
    make("div", { class: "fi-two" }, make("div", {}, logits, wrong), mixed),
    make("div", { class: "fx-controls fi-steps" }, back, slider, next), said, chart);

  function draw(all, step) {
    const wide = Math.min(560, root.clientWidth || 360), right = wide - 12; // one unit is one pixel, so that letters keep their size
    chart.setAttribute("viewBox", `0 0 ${wide} 150`);
    chart.style.width = `${wide}px`;
    const x = (k) => 34 + (k / last) * (right - 34), y = (value) => 12 + (Math.max(-8, Math.min(1, Math.log10(value || 1e-9))) - 1) * -13;
    const line = (kind, side) => {
      const points = all.map((mix, k) => [x(k), y(errors(mix)[kind]), k]).filter(([, , k]) => k % 2 === side);
      return [svg("polyline", { points: points.map(([a, b]) => `${a},${b}`).join(" "), class: `fi-${kind}` }),
        ...points.filter(([, , k]) => k <= step).map(([a, b]) => svg("circle", { cx: a, cy: b, r: 2.6, class: `fi-${kind}` }))];
    };
    chart.replaceChildren(
      ...[0, -2, -4, -6].flatMap((exponent) => [svg("line", { x1: 34, x2: right, y1: y(10 ** exponent), y2: y(10 ** exponent), class: "fi-grid" }),
        svg("text", { x: 29, y: y(10 ** exponent) + 3.5, class: "fi-right" }, exponent ? `10${raised(exponent)}` : "1")]),
      svg("line", { x1: x(step), x2: x(step), y1: 8, y2: 130, class: "fi-now" }), ...line("rows", 1), ...line("columns", 0),
      svg("text", { x: 34, y: 145 }, "step 0"), svg("text", { x: right, y: 145, class: "fi-right" }, `step ${last}`));
  }

  function paint() {
    const { logits: given, step } = now(), all = sinkhorn(given, data.rounds, data.eps), mix = all[step], found = errors(mix);
    presets.set(data.presets.find(([, , rows]) => rows.every((row, i) => row.every((value, j) => value === given[i][j])))?.[0]);
    cells.forEach((row, i) => row.forEach((cell, j) => {
      if (cell === document.activeElement && Number(cell.value) === given[i][j]) return;
      cell.value = given[i][j];
      cell.removeAttribute("aria-invalid");
    }));
    const turn = step === 0 ? "softmax of each row" : step % 2 ? "columns divided by their sums" : "rows divided by their sums";
    const down = columnSums(mix), across = rowSums(mix);
    mixed.replaceChildren(make("caption", {}, `Step ${step}: ${turn}`),
      make("thead", {}, make("tr", {}, make("td", {}), ...heads(), make("th", { scope: "col" }, "sum"))),
      make("tbody", {}, ...mix.map((row, i) => make("tr", {}, make("th", { scope: "row" }, `from ${i}`), ...row.map((value) => {
        const cell = make("td", { class: "fi-cell" }, value.toFixed(3));
        cell.style.setProperty("--heat", `${Math.min(1, value) * 38}%`);
        return cell;
      }), make("td", step % 2 ? {} : { class: "fi-done" }, across[i].toFixed(4))))),
      make("tfoot", {}, make("tr", {}, make("th", { scope: "row" }, "sum"),
        ...down.map((total) => make("td", step % 2 ? { class: "fi-done" } : {}, total.toFixed(4))), make("td", {}))));
    slider.value = step;
    slider.setAttribute("aria-valuetext", `${step}: ${turn}`);
    back.disabled = step === 0;
    next.disabled = step === last;
    const each = (kind, name) => [make("span", { class: `fi-key fi-${kind}` }), ` ${name} error `, make("b", {}, power(found[kind]))];
    said.replaceChildren(`Step ${step} of ${last}, ${turn}. `, make("span", {}, ...each("rows", "Row")), " ",
      make("span", {}, ...each("columns", "Column")));
    draw(all, step);
  }

  el.replaceChildren(root);
  const end = themed(el, root);
  const sizer = new ResizeObserver(() => draw(sinkhorn(now().logits, data.rounds, data.eps), now().step));
  sizer.observe(el);
  for (const key of ["logits", "step"]) model.on(`change:${key}`, paint);
  paint();
  return () => { end(); sizer.disconnect(); for (const key of ["logits", "step"]) model.off(`change:${key}`, paint); };
}

export default { render, sinkhorn, errors };
