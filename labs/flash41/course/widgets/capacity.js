// Capacity: context, sessions and memory, what fits, and what the answer leaves out.
// One module for two hosts; see host.py. The pure functions on the default export are compared with the package by a test.
// Uses kit.js, which the host puts before it.

// -- arithmetic: capacity.py in whole numbers without an end ---

function usedBytes(groups, tokens) {
  return groups.reduce((sum, [size, per, layers]) => sum + BigInt(size) * BigInt(layers) * (tokens / BigInt(per)), 0n);
}

// The largest context whose growing bytes are at most `room`; null where nothing grows. Doubling, then halving, as capacity.py does.
function longestContext(groups, room) {
  if (room < 0n) return 0n;
  const common = groups.reduce((product, [, per]) => product * BigInt(per), 1n);
  const slope = groups.reduce((sum, [size, per, layers]) => sum + (BigInt(size) * BigInt(layers) * common) / BigInt(per), 0n);
  if (!slope) return null;
  let fits = (room * common) / slope, long = fits + 1n;
  while (usedBytes(groups, long) <= room) long += long - fits;
  while (long - fits > 1n) {
    const middle = (fits + long) / 2n;
    if (usedBytes(groups, middle) <= room) fits = middle; else long = middle;
  }
  return fits;
}

// Sessions do not share rows: total = sessions * (growing + constant).
function capacity(groups, constant, context, sessions, memory) {
  [constant, context, sessions, memory] = [constant, context, sessions, memory].map(BigInt);
  const growing = usedBytes(groups, context), session = growing + constant, total = sessions * session;
  return { growing, session, total, fits: total <= memory, spare: memory - total, sessions: session ? memory / session : null,
    context: longestContext(groups, memory / sessions - constant) };
}

// "1.5Mi" as capacity.parse_size reads it; throws what is allowed.
function parseSize(text, name, units, largest) {
  const match = /^([0-9][0-9_]*)(?:\.([0-9]+))? ?([A-Za-z]*)$/.exec(text.trim());
  if (!match || !Object.hasOwn(units, match[3]))
    throw new Error(`${name}: a number, alone or with one of ${Object.keys(units).filter(Boolean).join(", ")}.`);
  const whole = match[1].replaceAll("_", ""), part = match[2] ?? "", scale = 10n ** BigInt(part.length);
  const scaled = whole.length + part.length + (part ? 1 : 0) <= 40 ? BigInt(whole + part) * BigInt(units[match[3]]) : 0n;
  const value = scaled / scale;
  if (scaled % scale || value < 1n || value > BigInt(largest)) throw new Error(`${name}: a whole number from 1 to 10^18.`);
  return value;
}

function bytes(size) {
  const n = Number(size), power = Math.min(5, Math.max(0, Math.floor(Math.log10(Math.max(Math.abs(n), 1)) / 3)));
  return `${Number((n / 1000 ** power).toPrecision(power ? 4 : 6)).toLocaleString("en-US")} ${["B", "kB", "MB", "GB", "TB", "PB"][power]}`;
}

function render({ model, el }) {
  el.addEventListener("focusin", ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }); // or JupyterLab takes its arrow keys
  const data = model.get("data");
  const KEYS = ["model", "context", "sessions", "memory", "weights"];
  const now = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const put = (key, value) => { model.set(key, value); model.save_changes(); };
  const chosen = () => data.models.find(({ name }) => name === now().model);
  const reader = (label, units) => (text) => {
    const value = parseSize(text.replaceAll(",", ""), label, units, data.largest);
    if (value > BigInt(data.most)) throw new Error(`${label}: at most 10^15 here.`);
    return Number(value);
  };
  const gigabytes = (value) => (value % 1e9 ? `${grouped(value)}` : `${grouped(value / 1e9)} GB`);

  const id = `fx${++serial}`;
  const select = make("select", { id, "data-key": "model" }, ...data.models.map(({ name, per_token: size }) =>
    make("option", { value: name }, `${name}: ${grouped(size)} B per token`)));
  select.addEventListener("change", () => {
    const wanted = select.value; // painting sets the select back to what the model holds
    if (!data.models.find(({ name }) => name === wanted).weights) model.set("weights", false);
    put("model", wanted);
  });
  const quantity = (key, label, choices, units, show, note) =>
    dial({ key, label, choices, show, note, parse: reader(label, units) }, (value) => put(key, value));
  const dials = {
    context: quantity("context", "Context, tokens", data.contexts, data.token_units, grouped),
    sessions: quantity("sessions", "Sessions", data.sessions, data.token_units, grouped),
    memory: quantity("memory", "Memory", data.memories, data.byte_units, gigabytes, "Type 1M or 1Mi tokens, 141GB or 128GiB."),
  };
  const box = make("input", { type: "checkbox", "data-key": "weights" });
  box.addEventListener("change", () => put("weights", box.checked));
  const weights = make("span", {}), tick = make("label", { class: "fc-tick" }, box, weights);
  const verdict = make("p", { class: "fx-big" }), reason = make("p"), answers = make("dl"), key = make("p", { class: "fc-key" });
  const bar = make("div", { class: "fc-bar", "aria-hidden": "true" });
  const missing = make("ul", { class: "fc-missing", "aria-label": "Not counted" });
  const result = make("section", { class: "fx-out", "aria-label": "Result" },
    make("div", { role: "status" }, verdict, reason), bar, key, answers);
  const root = make("div", { class: "fx fx-capacity", role: "group", "aria-label": "What fits" },
    make("div", { class: "fc-two" },
      make("div", { class: "fx-controls" }, make("div", { class: "fc-model" }, make("label", { for: id }, "Model"), select),
        dials.context.row, dials.sessions.row, dials.memory.row, tick),
      result),
    make("p", { class: "fc-title", "aria-hidden": "true" }, "Not counted"), missing);

  function paint() {
    const s = now(), each = chosen(), taken = s.weights ? each.weights : 0, free = Math.max(0, s.memory - taken);
    const found = capacity(each.groups, each.constant, s.context, s.sessions, free);
    select.value = s.model;
    for (const name of ["context", "sessions", "memory"]) dials[name].set(s[name]);
    box.checked = s.weights;
    tick.hidden = !each.weights;
    weights.textContent = ` Take the weights off first: ${bytes(each.weights)}`;
    const tight = s.weights && s.memory <= taken;
    result.dataset.fits = found.fits && !tight;
    verdict.replaceChildren(found.fits && !tight ? "Fits" : "Does not fit", " ", make("small", {}, `${bytes(found.total)} of cache`));
    reason.textContent = tight ? `The weights alone need ${bytes(taken)}, the memory has ${bytes(s.memory)}.`
      : found.fits ? `${bytes(found.spare)} of ${bytes(free)} remain.` : `${bytes(-found.spare)} are missing: there are ${bytes(free)}.`;
    const sum = Math.max(Number(found.total) + taken, s.memory);
    const parts = [["weights", "weights", taken], ["growing", "entries and index keys", Number(found.growing) * s.sessions],
      ["constant", "windows and open groups", each.constant * s.sessions],
      ["free", "free", Math.max(0, s.memory - taken - Number(found.total))]].filter(([, , size]) => size > 0);
    bar.replaceChildren(...parts.map(([kind, , size]) => {
      const part = make("span", { class: `fc-${kind}` });
      part.style.flexGrow = size / sum;
      return part;
    }));
    bar.style.setProperty("--end", s.memory / sum);
    bar.classList.toggle("fc-over", sum > s.memory);
    key.replaceChildren(...parts.map(([kind, name, size]) => make("span", {}, make("span", { class: `fc-dot fc-${kind}` }), ` ${name} ${bytes(size)}`)));
    const limit = each.limit && s.context > each.limit ? ` (released for ${grouped(each.limit)})` : "";
    const count = `${grouped(s.sessions)} ${s.sessions === 1 ? "session" : "sessions"}`;
    const lines = [
      [`One session of ${grouped(s.context)} tokens${limit}`, `${bytes(found.session)} = ${bytes(found.growing)} + ${bytes(each.constant)} constant`],
      ["Most sessions of this context", found.sessions === null ? "no end" : grouped(found.sessions)],
      [`Longest context for ${count}`, found.context === null ? "no end" : `${grouped(found.context)} tokens`],
    ];
    answers.replaceChildren(...lines.flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)]));
    missing.replaceChildren(...each.missing.filter((text) => !(s.weights && text.startsWith("weights"))).map((text) => make("li", {}, text)));
  }

  el.replaceChildren(root);
  const end = themed(el, root);
  for (const name of KEYS) model.on(`change:${name}`, paint);
  paint();
  return () => { end(); for (const name of KEYS) model.off(`change:${name}`, paint); };
}

export default { render, capacity, parseSize };
