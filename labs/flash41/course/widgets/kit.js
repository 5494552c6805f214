// What every explorer is made of: elements, buttons, dials, and the theme it stands in. The host puts these lines before a
// module that says "Uses kit.js"; they share its scope.

let serial = 0;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== undefined && child !== ""));
  return element;
}

function press(attributes, onPress, ...children) {
  const button = make("button", { type: "button", ...attributes }, ...children);
  button.addEventListener("click", onPress);
  return button;
}

// A named group of buttons: choices are [key, words]; `set(key)` marks the one that holds.
function buttons(label, choices, onPress) {
  const all = choices.map(([key, words]) => [key, press({ "data-key": key, "aria-pressed": "false" }, () => onPress(key), words)]);
  const row = make("div", { class: "fx-group", role: "group", "aria-label": label },
    make("span", { class: "fx-name", "aria-hidden": "true" }, label), ...all.map(([, button]) => button));
  return { row, set(now) { for (const [key, button] of all) button.setAttribute("aria-pressed", key === now); } };
}

// A slider over `choices` and a field for what lies between them. `parse` throws what is wrong with a typed text.
function dial({ key, label, choices, parse, show = String, note }, commit) {
  const id = `fx${++serial}`;
  const slider = make("input", { type: "range", min: 0, step: 1, id, "data-key": key });
  const field = make("input", { type: "text", "data-key": `${key}-field`, "aria-label": `${label}, typed`, "aria-describedby": `${id}e`,
    autocomplete: "off" });
  const error = make("span", { class: "fx-error", id: `${id}e`, role: "alert" });
  const row = make("div", { class: "fx-dial" }, make("label", { for: id }, label), slider, field, error);
  if (note) row.append(make("small", {}, note));
  const say = (words) => { error.textContent = words; field.setAttribute("aria-invalid", words !== ""); };
  slider.addEventListener("input", () => commit(choices[slider.value]));
  field.addEventListener("change", () => {
    let value;
    try { value = parse(field.value); } catch (problem) { return say(problem.message); }
    say("");
    field.value = show(value);
    commit(value);
  });
  return {
    row,
    set(value, allowed = choices, off = false) {
      choices = allowed;
      slider.max = choices.length - 1;
      slider.value = Math.max(0, choices.findLastIndex((choice) => choice <= value));
      slider.setAttribute("aria-valuetext", show(value));
      slider.disabled = field.disabled = off;
      field.value = show(value);
      say("");
    },
  };
}

// Dark or light by the colour that text really has here, whatever the host calls its theme; returns what ends the watch.
function themed(el, root) {
  const look = () => {
    const [r, g, b] = (getComputedStyle(el).color.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
    root.dataset.theme = 0.2126 * r + 0.7152 * g + 0.0722 * b > 140 ? "dark" : "light";
  };
  const watch = new MutationObserver(look);
  for (const host of [document.documentElement, document.body])
    watch.observe(host, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "theme", "class"] });
  look();
  return () => watch.disconnect();
}

const grouped = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });

