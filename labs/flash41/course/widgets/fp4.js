// FP4: sixteen values to drag, the scale they share, their codes and bytes, and what comes back, in both formats.
// One module for two hosts; see host.py. The pure functions on the default export are compared with the package by a test.
// Uses kit.js, which the host puts before it.

// -- arithmetic: formats.py in float32, one Math.fround for every rounding torch makes ---

const float = Math.fround;
const words = new Uint32Array(1), single = new Float32Array(words.buffer);
const BOUNDARIES = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5]; // half-way between grid values; at every second one a tie goes up
const TIE_UP = new Set([0.75, 1.75, 3.5]);

function exponent(value) { single[0] = value; return ((words[0] >>> 23) & 255) - 127; }
function nearestEven(value) {
  const low = Math.floor(value), rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2) ? low + 1 : low;
}

// E4M3 byte of max(a, 6 * 2^-9) / 6, to nearest even, at most 448.
function e4m3Byte(largest, data) {
  const ratio = Math.min(float(Math.max(largest, data.fp4_max * data.smallest) / data.fp4_max), data.e4m3_max);
  const e = Math.max(-6, exponent(ratio));
  return (e + 6) * 8 + nearestEven(ratio / 2 ** (e - 3));
}
function e4m3Value(byte) { return byte >> 3 ? 2 ** ((byte >> 3) - 7) * (1 + (byte & 7) / 8) : (byte & 7) * 2 ** -9; }

// E8M0 byte of the smallest power of two >= a * (1/6): a mantissa that is not zero lifts the exponent by one.
function e8m0Byte(largest, data) {
  single[0] = float(Math.max(largest, float(data.fp4_max * 2 ** -126)) * float(1 / data.fp4_max));
  return (words[0] >>> 23) + ((words[0] & 0x7fffff) !== 0);
}

function e2m1Code(value) {
  const size = Math.abs(value);
  const code = BOUNDARIES.filter((edge) => size > edge || (size === edge && TIE_UP.has(edge))).length;
  return code | (value < 0 || Object.is(value, -0) ? 8 : 0);
}

// Sixteen values in one format: a scale of their own ("E4M3"), or one that serves sixteen neighbours of that magnitude too ("E8M0").
function encode(values, neighbor, kind, data) {
  const x = values.map(float), own = Math.max(...x.map(Math.abs));
  const byte = kind === "E4M3" ? e4m3Byte(own, data) : e8m0Byte(Math.max(own, float(neighbor)), data);
  const scale = kind === "E4M3" ? e4m3Value(byte) : 2 ** (byte - 127);
  const steps = x.map((value) => float(value / scale));
  const codes = steps.map(e2m1Code);
  return {
    byte, scale, steps, codes, decoded: codes.map((code) => float(data.grid[code & 7] * scale) * (code & 8 ? -1 : 1)),
    bytes: codes.flatMap((code, i) => (i % 2 ? [] : [code | (codes[i + 1] << 4)])), // the even channel in the low nibble
    ties: steps.map((step) => BOUNDARIES.includes(Math.abs(step))), cut: steps.map((step) => Math.abs(step) > data.fp4_max),
  };
}

// Root mean square of the error in percent of that of the values.
function rms(values, decoded) {
  const squares = (list) => list.reduce((sum, value) => sum + value * value, 0);
  const size = squares(values.map(float));
  return size ? 100 * Math.sqrt(squares(values.map((value, i) => float(value) - decoded[i])) / size) : 0;
}

const KINDS = [["E4M3", "FP4, E4M3 scale per 16", 0], ["E8M0", "FP4, E8M0 scale per 32", 1]];
const hex = (byte) => byte.toString(16).padStart(2, "0");
const short = (value) => (value ? String(Number(value.toPrecision(4))).replace("-", "−") : Object.is(value, -0) ? "−0" : "0");

// At most five signs, to stand under a narrow column.
function tiny(value) {
  const size = Math.abs(value);
  if (size && size < 0.01) return value.toExponential(0).replaceAll("-", "−");
  return short(Number(value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0)));
}

function render({ model, el }) {
  el.addEventListener("focusin", ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }); // or JupyterLab takes its arrow keys
  const data = model.get("data");
  const view = { at: 2, span: 8, keep: false };
  const now = () => ({ values: model.get("values"), neighbor: model.get("neighbor") });
  function put(change, keep = false) {
    view.keep = keep;
    for (const [key, value] of Object.entries(change)) model.set(key, value);
    model.save_changes();
    view.keep = false;
  }
  const replaced = (channel, value) => now().values.map((old, i) => (i === channel ? value : old));
  function number(text) {
    const value = Number(text.trim().replace("−", "-"));
    if (text.trim() === "" || !(Math.abs(value) <= data.largest)) throw new Error(`A number from −${data.largest} to ${data.largest}.`);
    return value;
  }

  const presets = buttons("Try", data.presets.map(([key, name]) => [key, name]), (key) => {
    const [, , values, neighbor] = data.presets.find(([name]) => name === key);
    const { cut, ties } = encode(values, neighbor, "E4M3", data);
    view.at = Math.max(0, cut.includes(true) ? cut.indexOf(true) : ties.indexOf(true));
    put({ values: [...values], neighbor });
  });
  const sizes = buttons("All values", [["double", "× 2"], ["halve", "÷ 2"], ["flip", "± swap"]], (key) => {
    const by = { double: 2, halve: 0.5, flip: -1 }[key], values = now().values.map((value) => value * by);
    if (values.every((value) => Math.abs(value) <= data.largest)) put({ values });
  });
  const columns = now().values.map((_, channel) => {
    const slider = make("input", { type: "range", "data-key": `v${channel}`, "aria-label": `Channel ${channel}`,
      "aria-orientation": "vertical" });
    slider.addEventListener("input", () => { view.at = channel; put({ values: replaced(channel, Number(slider.value)) }, true); });
    slider.addEventListener("focus", () => { view.at = channel; paint(); });
    const marks = KINDS.map(([kind]) => make("span", { class: `ff-mark ff-${kind}`, "aria-hidden": "true" }));
    const label = make("span", { class: "ff-value", "aria-hidden": "true" });
    return { slider, marks, label, box: make("div", { class: "ff-column" }, make("div", { class: "ff-well" }, ...marks, slider), label) };
  });
  const rails = [];
  const bank = (first) => {
    const ends = KINDS.map(([kind]) => make("div", { class: `ff-rail ff-${kind}`, "aria-hidden": "true" }));
    rails.push(ends);
    return make("div", { class: "ff-bank", role: "group", "aria-label": `Channels ${first} to ${first + 7}` }, ends[0],
      ...columns.slice(first, first + 8).map(({ box }) => box), ends[1]);
  };
  const picture = make("div", { class: "ff-picture" }, bank(0), bank(8));
  const span = make("p", { class: "fx-note" });
  const typed = dial({ key: "channel", label: "Channel", choices: columns.map((_, i) => i), show: String, parse: (text) => {
    const channel = Number(text);
    if (!/^\d+$/.test(text.trim()) || channel > 15) throw new Error("A channel from 0 to 15.");
    return channel;
  } }, (channel) => { view.at = channel; paint(); });
  const value = make("input", { type: "text", "data-key": "value", "aria-label": "Value of the channel", autocomplete: "off" });
  const wrong = make("span", { class: "fx-error", role: "alert" });
  value.addEventListener("change", () => {
    try { put({ values: replaced(view.at, number(value.value)) }); wrong.textContent = ""; }
    catch (problem) { wrong.textContent = problem.message; }
    value.setAttribute("aria-invalid", wrong.textContent !== "");
  });
  const neighbor = dial({ key: "neighbor", label: "Other 16 channels", parse: (text) => Math.abs(number(text)),
    choices: [0, ...Array.from({ length: 17 }, (_, i) => 2 ** (i - 4))],
    note: "The magnitude of the other half of the E8M0 group of 32. Those channels have their own E4M3 scale." }, (size) => put({ neighbor: size }));
  const chain = make("table", { class: "ff-chain" });
  const cards = make("div", { class: "ff-two" });
  const said = make("p", { class: "ff-said", role: "status" });
  const root = make("div", { class: "fx fx-fp4", role: "group", "aria-label": "Sixteen values in FP4" },
    make("div", { class: "fx-controls" }, presets.row, sizes.row), picture, span, cards, said,
    make("div", { class: "ff-two" }, make("div", { class: "fx-controls" }, typed.row,
      make("div", { class: "ff-typed" }, make("span", { "aria-hidden": "true" }, "Value, typed"), value, wrong), neighbor.row), chain));

  // Where a value stands in the picture: 0 at the top, 1 at the bottom.
  const place = (number) => (1 - Math.max(-1, Math.min(1, number / view.span))) / 2;

  function card(kind, title, found, values) {
    const count = (list) => list.filter(Boolean).length;
    const codes = make("span", { class: "ff-bytes" },
      ...found.bytes.map((byte, i) => make("code", view.at >> 1 === i ? { class: "ff-lit" } : {}, hex(byte))));
    const power = kind === "E8M0" ? [" = 2", make("sup", {}, String(found.byte - 127).replace("-", "−"))] : [];
    return make("section", { class: `fx-out ff-card ff-${kind}`, "aria-label": title }, make("p", { class: "fx-title" }, title),
      make("p", {}, "scale ", make("b", {}, short(found.scale)), ...power, ", byte ", make("code", {}, hex(found.byte))),
      make("p", {}, "codes ", codes), // the byte of the chosen channel is marked
      make("p", {}, "error ", make("b", {}, `${rms(values, found.decoded).toFixed(1)} %`), ` RMS · ${count(found.ties)} on a tie · `,
        make("b", count(found.cut) ? { class: "ff-cut" } : {}, `${count(found.cut)} cut off`)));
  }

  // The picture's ends follow new values, but stay where they are under a finger that drags.
  function fit() {
    if (view.keep) return;
    const most = Math.max(...now().values.map(Math.abs));
    view.span = most ? Math.min(data.largest, 2 ** Math.ceil(Math.log2(most * 1.25))) : 8;
  }

  function paint() {
    const { values, neighbor: other } = now();
    const found = KINDS.map(([kind]) => encode(values, other, kind, data));
    const preset = data.presets.find(([, , list, near]) => near === other && list.every((each, i) => each === values[i]));
    presets.set(preset?.[0]);
    columns.forEach(({ slider, marks, label, box }, i) => {
      slider.min = -view.span; slider.max = view.span; slider.step = view.span / 64; slider.value = values[i];
      const back = KINDS.map(([kind], k) => `${short(found[k].decoded[i])} in ${kind}`);
      slider.setAttribute("aria-valuetext", `${short(values[i])}: ${back.join(", ")}`);
      marks.forEach((mark, k) => {
        mark.style.setProperty("--y", place(found[k].decoded[i]));
        mark.classList.toggle("ff-cut", found[k].cut[i]);
      });
      label.textContent = tiny(values[i]);
      box.classList.toggle("ff-at", i === view.at);
    });
    for (const ends of rails) ends.forEach((rail, k) => rail.replaceChildren(...data.grid.flatMap((point) => [point, -point])
      .filter((point) => Math.abs(point * found[k].scale) <= view.span).map((point) => {
        const tick = make("i", {});
        tick.style.setProperty("--y", place(point * found[k].scale));
        return tick;
      })));
    span.textContent = `Top and bottom of the picture: ±${short(view.span)}. `
      + "Ticks at the sides: what each format can say at its scale, E4M3 on the left, E8M0 on the right.";
    cards.replaceChildren(...KINDS.map(([kind, title], k) => card(kind, title, found[k], values)));
    const at = view.at;
    typed.set(at);
    value.value = String(values[at]);
    wrong.textContent = "";
    value.removeAttribute("aria-invalid");
    neighbor.set(other);
    const lines = [["value", () => short(values[at])],
      ["÷ scale", (f) => short(f.steps[at]) + (f.ties[at] ? " tie" : f.cut[at] ? " cut" : "")],
      ["grid", (f) => short(f.codes[at] & 8 ? -data.grid[f.codes[at] & 7] : data.grid[f.codes[at]])],
      ["code", (f) => f.codes[at].toString(2).padStart(4, "0")], ["byte", (f) => `${hex(f.bytes[at >> 1])}, ${at % 2 ? "high" : "low"} half`],
      ["back", (f) => short(f.decoded[at])], ["error", (f) => short(f.decoded[at] - float(values[at]))]];
    const heads = KINDS.map(([kind]) => make("th", { scope: "col", class: `ff-${kind}` }, kind));
    chain.replaceChildren(make("caption", {}, `Channel ${at}`), make("thead", {}, make("tr", {}, make("td", {}), ...heads)),
      make("tbody", {}, ...lines.map(([name, tell]) => make("tr", {}, make("th", { scope: "row" }, name), ...found.map((f) => make("td", {}, tell(f)))))));
    said.textContent = story(found, at, values);
  }

  // One sentence for what is worth seeing in this setting.
  function story([fine, coarse], at, values) {
    const asked = short(values[at]), zeros = (f) => f.codes.filter((code, i) => !(code & 7) && values[i]).length;
    if (fine.cut[at])
      return `Channel ${at} lies beyond 6 steps: the E4M3 scale was ${fine.byte === 0x7e ? "at its end, 448" : "rounded down"}, `
        + `so ${asked} comes back as ${short(fine.decoded[at])}.`;
    if (fine.ties[at]) return `Channel ${at} lies half-way between two grid values in E4M3 and goes to the even code.`;
    if (coarse.ties[at]) return `Channel ${at} lies half-way between two grid values in E8M0 and goes to the even code.`;
    if (zeros(coarse) > zeros(fine))
      return `The scale for 32 turns ${zeros(coarse)} of these sixteen values into zero, the scale for 16 turns ${zeros(fine)}.`;
    return `Channel ${at}: ${asked} comes back as ${short(fine.decoded[at])} and as ${short(coarse.decoded[at])}.`;
  }

  el.replaceChildren(root);
  const end = themed(el, root);
  const change = () => { fit(); paint(); };
  model.on("change:values", change);
  model.on("change:neighbor", paint);
  change();
  return () => { end(); model.off("change:values", change); model.off("change:neighbor", paint); };
}

export default { render, encode, rms };
