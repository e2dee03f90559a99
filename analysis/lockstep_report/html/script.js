"use strict";
// Adds to the static page: the choice of dark or light, the buttons that copy a table, and sections that open for
// printing and for links to their contents.
const each = (selector, action) => document.querySelectorAll(selector).forEach(action);

const dark = window.matchMedia("(prefers-color-scheme: dark)");
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  root.dataset.theme = isDark ? "light" : "dark";
});

async function copy(button) {
  const text = button.nextElementSibling;
  try {
    await navigator.clipboard.writeText(text.value);
  } catch { // no access to the clipboard, for example on a page of plain HTTP
    text.hidden = false;
    text.select();
    document.execCommand("copy");
    text.hidden = true;
  }
  button.dataset.done = "";
}
each(".copy button", (button) => button.addEventListener("click", () => copy(button)));
each("#theme, .copy", (element) => { element.hidden = false; });

function reveal() {
  const target = document.getElementById(window.location.hash.slice(1));
  for (let part = target; part; part = part.parentElement) {
    if (part.tagName === "DETAILS") part.open = true;
  }
  if (target) target.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
reveal();

window.addEventListener("beforeprint", () => each("details:not([open])", (details) => {
  details.open = true;
  details.dataset.printed = "";
}));
window.addEventListener("afterprint", () => each("details[data-printed]", (details) => {
  details.open = false;
  delete details.dataset.printed;
}));
