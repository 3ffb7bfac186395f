// Shows the values of charts under the pointer and by keys. Without scripts: titles and tables.
"use strict";

const NEAR_PX = 40;

function readPoints(plot) {
  return [...plot.querySelectorAll("circle")].map((dot) => ({
    dot, line: dot.closest(".line"), text: dot.querySelector("title").textContent,
  }));
}

function findNear(plot, x, y) {
  let near = null, nearest = NEAR_PX;
  for (const point of readPoints(plot)) {
    const box = point.dot.getBoundingClientRect();
    const distance = Math.hypot(box.x + box.width / 2 - x, box.y + box.height / 2 - y);
    if (distance < nearest) [near, nearest] = [point, distance];
  }
  return near;
}

function findTip(plot) {
  const figure = plot.closest("figure");
  let tip = figure.querySelector(".tip");
  if (tip === null) {
    tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("role", "status");
    figure.append(tip);
  }
  return tip;
}

function choose(plot, point) {
  const figure = plot.closest("figure");
  const tip = findTip(plot);
  plot.querySelectorAll(".chosen").forEach((part) => part.classList.remove("chosen"));
  plot.classList.toggle("choosing", point !== null);
  tip.hidden = point === null;
  if (point === null) return;
  point.line.classList.add("chosen");
  point.dot.classList.add("chosen");
  const name = point.line.dataset.name;
  tip.textContent = name && name !== "record" && !point.text.includes(name) ? `${name}: ${point.text}` : point.text;
  if (name === "record") tip.textContent = `Record: ${point.text}`;
  const box = point.dot.getBoundingClientRect(), around = figure.getBoundingClientRect();
  const left = box.x - around.x, isRight = left > around.width / 2;
  tip.style.left = isRight ? "auto" : `${left + 14}px`;
  tip.style.right = isRight ? `${around.width - left + 6}px` : "auto";
  tip.style.top = `${box.y - around.y - 10}px`;
}

function openChosen(plot) {
  const path = plot.querySelector("circle.chosen")?.dataset.path;
  if (path) location.href = path;
}

// Left and right go along a line, up and down to the nearest point of another.
function move(plot, key) {
  const points = readPoints(plot);
  const at = points.findIndex((point) => point.dot.classList.contains("chosen"));
  if (at < 0) return points.at(-1);
  const lines = [...plot.querySelectorAll(".line")];
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const next = points[at + (key === "ArrowLeft" ? -1 : 1)];
    return next?.line === points[at].line ? next : points[at];
  }
  const line = lines[lines.indexOf(points[at].line) + (key === "ArrowUp" ? -1 : 1)];
  if (line === undefined) return points[at];
  const x = (point) => point.dot.getBoundingClientRect().x;
  const others = points.filter((point) => point.line === line);
  return others.sort((a, b) => Math.abs(x(a) - x(points[at])) - Math.abs(x(b) - x(points[at])))[0];
}

function prepare() {
  for (const plot of document.querySelectorAll("figure svg.plot:not(.histogram, [tabindex])")) {
    plot.tabIndex = 0;
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-roledescription", "chart");
  }
}

const findPlot = (event) => event.target.closest?.("svg.plot[tabindex]") ?? null;

document.addEventListener("pointermove", (event) => {
  const plot = findPlot(event);
  if (plot !== null) choose(plot, findNear(plot, event.clientX, event.clientY));
});
document.addEventListener("pointerout", (event) => {
  const plot = findPlot(event);
  if (plot !== null && !plot.contains(event.relatedTarget)) choose(plot, null);
});
document.addEventListener("click", (event) => {
  const plot = findPlot(event);
  if (plot !== null) openChosen(plot);
});
document.addEventListener("keydown", (event) => {
  const plot = findPlot(event);
  if (plot === null) return;
  if (event.key.startsWith("Arrow")) {
    event.preventDefault();
    choose(plot, move(plot, event.key));
  } else if (event.key === "Enter") {
    openChosen(plot);
  } else if (event.key === "Escape") {
    choose(plot, null);
  }
});
document.addEventListener("focusout", (event) => {
  const plot = findPlot(event);
  if (plot !== null) choose(plot, null);
});
// A name of the legend marks its line.
document.addEventListener("pointerover", (event) => {
  const name = event.target.closest?.(".legend [data-line]");
  if (!name) return;
  const plot = name.closest("figure").querySelector("svg.plot");
  const line = plot.querySelectorAll(".line")[Number(name.dataset.line)];
  plot.querySelectorAll(".chosen").forEach((part) => part.classList.remove("chosen"));
  plot.classList.add("choosing");
  line.classList.add("chosen");
  name.addEventListener("pointerleave", () => choose(plot, null), {once: true});
});

prepare();
document.addEventListener("updated", prepare);
