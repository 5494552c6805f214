// Mends what the theme and its extensions leave to be desired for keyboards and screen readers. Loaded with defer.

// Names for controls that have none, or another one than they show (WCAG 4.1.2, 2.5.3).
for (const summary of document.querySelectorAll("li.has-children > details > summary")) {
  const link = summary.closest("li").querySelector("a");
  summary.setAttribute("aria-label", `Pages under ${link ? link.textContent.trim() : "this section"}`);
}
for (const summary of document.querySelectorAll("summary[aria-label='Toggle hidden content']")) {
  summary.removeAttribute("aria-label");
}
for (const button of document.querySelectorAll(".search-button-field")) button.removeAttribute("aria-label");
for (const icon of document.querySelectorAll(".theme-switch-button [title]")) icon.removeAttribute("title");
const logo = document.querySelector("a.navbar-brand.logo");
if (logo) {
  logo.parentElement.setAttribute("role", "navigation");
  logo.parentElement.setAttribute("aria-label", "Home");
}

// What is wider than its box scrolls inside it, so the box must take the focus. Boxes change with the window, with the
// sidebar, and when a formula is drawn.
const boxes = new ResizeObserver((entries) => {
  for (const { target } of entries) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
});
function watchBoxes() {
  const scrolling = ":is(pre, div.math, mjx-container[display], .pst-scrollable-table-container)";
  for (const box of document.querySelectorAll(`.bd-article ${scrolling}`)) boxes.observe(box);
}
watchBoxes();
window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(watchBoxes));

// Paper is light whatever the screen is: without this the dark theme prints pale words on white.
const root = document.documentElement;
let screenTheme;
window.addEventListener("beforeprint", () => {
  screenTheme = root.dataset.theme;
  root.dataset.theme = "light";
});
window.addEventListener("afterprint", () => { root.dataset.theme = screenTheme; });
