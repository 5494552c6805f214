// The page's side of a widget: it stands before the widget's own module in the one classic script of a built page.

class PageModel {
  constructor(state) { this.state = state; this.listeners = {}; }
  get(key) { return this.state[key]; }
  set(key, value) {
    if (this.state[key] === value) return;
    this.state[key] = value;
    for (const listener of this.listeners[`change:${key}`] ?? []) listener();
  }
  on(event, listener) { (this.listeners[event] ??= new Set()).add(listener); }
  off(event, listener) { this.listeners[event]?.delete(listener); }
  save_changes() {}
}

class CourseWidget extends HTMLElement {
  connectedCallback() { this.start(); }

  // Before its module has loaded an element shows its table; it keeps the table when the module fails.
  start() {
    const module = window.courseWidgets[this.dataset.module];
    const data = this.querySelector(":scope > script");
    if (this.model || !module || !data) return;
    this.model = new PageModel({ ...JSON.parse(data.textContent), page: true });
    const el = document.createElement("div");
    this.prepend(el);
    module.render({ model: this.model, el });
    this.dataset.live = "";
  }
}

function host(name, module) {
  (window.courseWidgets ??= {})[name] = module;
  if (!customElements.get("course-widget")) customElements.define("course-widget", CourseWidget);
  for (const element of document.querySelectorAll(`course-widget[data-module="${name}"]`)) element.start?.();
}
