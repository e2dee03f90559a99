"use strict";
// Adds to the static page: values on hover and with the arrow keys, hiding of series, larger charts,
// and the choice of dark or light. Without this script the page has the same content.

function node(tag, text, properties) {
  const made = document.createElement(tag);
  made.textContent = text || "";
  return Object.assign(made, properties || {});
}

function themeButton() {
  const button = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
    root.dataset.theme = isDark ? "light" : "dark";
  });
}

// The marks of a chart: [{x, y, text, element}] in the units of the drawing.
function marksOf(chart) {
  return [...chart.querySelectorAll(".mark")].map((element) => {
    const title = element.querySelector("title");
    const box = element.getBBox();
    const text = title ? title.textContent : "";
    if (title) title.remove(); // otherwise the browser shows it as well
    return { element, text, box, x: box.x + box.width / 2, y: box.y + box.height / 2 };
  });
}

// The cells of a map: the same objects, made from the digits of each row.
function cellsOf(chart) {
  const { left, top, width, height, steps } = chart.dataset;
  const numbers = steps.split(" ").map(Number);
  const entries = chart.closest("figure").querySelectorAll(".legend li");
  const names = [...entries].map((entry) => entry.textContent.trim());
  return [...chart.querySelectorAll("[data-rank]")].flatMap((row, place) =>
    [...row.dataset.classes].map((digit, column) => {
      const last = column + 2 < numbers.length ? numbers[column + 1] - 1 : numbers[column + 1];
      const host = row.dataset.host ? ` (${row.dataset.host})` : "";
      const first = numbers[column];
      return {
        text: `rank ${row.dataset.rank}${host}, step ${first}${last > first ? ` to ${last}` : ""}: ${names[digit]}`,
        x: Number(left) + (column + 0.5) * width,
        y: Number(top) + (place + 0.5) * height,
      };
    }));
}

function isShown(mark) {
  return mark.text && !(mark.element && mark.element.closest(".off"));
}

function distance(mark, x, y) {
  if (!mark.element || mark.element.tagName !== "rect") return Math.hypot(mark.x - x, mark.y - y);
  const box = mark.box; // of a bar: 0 inside
  return Math.hypot(Math.max(box.x - x, 0, x - box.x - box.width), Math.max(box.y - y, 0, y - box.y - box.height));
}

function values(chart) {
  const panel = chart.parentElement;
  const marks = chart.classList.contains("map") ? cellsOf(chart) : marksOf(chart);
  if (!marks.some((mark) => mark.text)) return;
  const tip = node("div", "", { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  panel.append(tip);
  let current = null;

  function show(mark) {
    if (current && current.element) current.element.classList.remove("current");
    current = mark;
    tip.hidden = !mark;
    if (!mark) return;
    if (mark.element) mark.element.classList.add("current");
    tip.textContent = mark.text;
    const scale = chart.clientWidth / chart.viewBox.baseVal.width;
    const room = Math.max(panel.clientWidth, panel.scrollWidth) - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(room, chart.offsetLeft + mark.x * scale - tip.offsetWidth / 2))}px`;
    const place = chart.offsetTop + mark.y * scale;
    const above = place - tip.offsetHeight - 12;
    tip.style.top = `${above < 0 ? place + 14 : above}px`;
  }

  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const scale = box.width / chart.viewBox.baseVal.width;
    const [x, y] = [(event.clientX - box.left) / scale, (event.clientY - box.top) / scale];
    let best = null;
    let nearest = 24;
    for (const mark of marks) {
      const away = distance(mark, x, y);
      if (away < nearest && isShown(mark)) [best, nearest] = [mark, away];
    }
    if (best !== current) show(best);
  });
  chart.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show(null));
  chart.addEventListener("blur", () => show(null));
  chart.setAttribute("tabindex", "0");
  chart.setAttribute("aria-description", "Left and right arrow keys show the values");
  chart.addEventListener("keydown", (event) => {
    const shown = marks.filter(isShown);
    const place = shown.indexOf(current);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" && current) show(null);
    else if (step && shown.length) show(shown[place < 0 ? 0 : (place + step + shown.length) % shown.length]);
    else return;
    event.preventDefault();
  });
}

function hideSeries(figure) {
  for (const entry of figure.querySelectorAll(".legend li")) {
    const key = entry.dataset.series;
    const button = node("button", "", { type: "button", title: "Show or hide" });
    button.setAttribute("aria-pressed", "true");
    button.append(...entry.childNodes);
    entry.append(button);
    button.addEventListener("click", () => {
      const hide = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!hide));
      for (const part of figure.querySelectorAll(".chart [data-series]"))
        if (part.dataset.series === key) part.classList.toggle("off", hide);
    });
  }
}

function enlarge(chart) {
  if (typeof HTMLDialogElement === "undefined") return;
  const panel = chart.parentElement;
  const heading = panel.querySelector("h4").textContent;
  const tools = node("div", "", { className: "tools" });
  const open = node("button", "Enlarge", { type: "button" });
  open.setAttribute("aria-label", `Enlarge: ${heading}`);
  tools.append(open);
  panel.append(tools);
  open.addEventListener("click", () => {
    const dialog = node("dialog");
    const bar = node("div", "", { className: "tools" });
    const stage = node("div", "", { className: "stage" });
    const copy = chart.cloneNode(true);
    let percent = 100;
    const zoom = (factor) => {
      percent = Math.min(800, Math.max(100, percent * factor));
      copy.style.width = `${percent}%`;
    };
    dialog.setAttribute("aria-label", heading);
    for (const [text, action] of [["Larger", () => zoom(1.5)], ["Smaller", () => zoom(1 / 1.5)], ["Close", () => dialog.close()]]) {
      const button = node("button", text, { type: "button" });
      button.addEventListener("click", action);
      bar.append(button);
    }
    const marks = [...chart.querySelectorAll(".mark")];
    [...copy.querySelectorAll(".mark")].forEach((mark, place) => {
      if (!texts.has(marks[place])) return;
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = texts.get(marks[place]);
      mark.append(title);
    });
    stage.append(copy);
    dialog.append(node("h4", heading), bar, stage);
    dialog.addEventListener("close", () => { dialog.remove(); open.focus(); });
    chart.closest("figure").append(dialog); // keeps the colours; hidden series stay hidden
    dialog.showModal();
    values(copy);
    copy.focus();
  });
}

const texts = new Map(); // mark -> its value, because `values` removes the titles
for (const title of document.querySelectorAll(".mark > title")) texts.set(title.parentNode, title.textContent);
themeButton();
document.querySelectorAll(".chart").forEach(values);
document.querySelectorAll(".chart").forEach(enlarge);
document.querySelectorAll("figure").forEach(hideSeries);
