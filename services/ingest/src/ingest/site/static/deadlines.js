// Shows deadlines also in the reader's time zone, and counts down to them.
"use strict";

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const EVERY_MS = 1000;
const local = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "long" });

function timeLeft(seconds) {
  if (seconds <= 0) return "ended: reload the page";
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(seconds / size);
    seconds -= count * size;
    if (count > 0 || parts.length > 0) parts.push(`${count} ${unit}${count === 1 ? "" : "s"}`);
  }
  return `in ${parts.slice(0, 2).join(" ")}`;
}

for (const deadline of document.querySelectorAll(".deadline")) {
  const at = new Date(deadline.dataset.at);
  const text = document.createElement("span");
  text.className = "help local";
  text.textContent = `(${local.format(at)})`;
  deadline.querySelector("time").after(" ", text);
  const left = deadline.querySelector(".left");
  if (left === null) continue;
  const update = () => {
    left.textContent = timeLeft(Math.floor((at - Date.now()) / 1000));
  };
  update();
  setInterval(update, EVERY_MS);
}
