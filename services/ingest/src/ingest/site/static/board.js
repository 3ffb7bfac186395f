// Shows new rows and records of a leaderboard while its page is visible. Without scripts: reload.
"use strict";

const REFRESH_MS_MIN = 500;
// Where no stream can be opened, such as when too many are.
const POLL_MS = 10000;

const board = document.getElementById("board");
const parts = ["podium", "board", "trend"].map((id) => document.getElementById(id));
let events = null;
let timer = null;
let refreshedAt = -REFRESH_MS_MIN;
// As it was sent: static/times.js changes how instants are shown.
const shown = new Map(parts.map((part) => [part, part.innerHTML]));

function listNumbers(element) {
  return [...element.querySelectorAll("tr[data-number]")].map((row) => row.dataset.number);
}

async function refresh() {
  timer = null;
  refreshedAt = performance.now();
  const response = await fetch(location.href);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const before = listNumbers(board);
  for (const part of parts) {
    const update = page.getElementById(part.id);
    if (update === null || update.innerHTML === shown.get(part)) continue;
    shown.set(part, update.innerHTML);
    replacePart(part, update);
  }
  showNews(before);
}

// Readers keep their focus and what they opened.
function replacePart(part, update) {
  const opened = [...part.querySelectorAll("details")].map((details) => details.open);
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  part.replaceChildren(...update.childNodes);
  part.querySelectorAll("details").forEach((details, index) => { details.open = opened[index] });
  if (focused?.hasAttribute("href")) {
    const href = CSS.escape(focused.getAttribute("href"));
    part.querySelector(`a[href="${href}"]`)?.focus();
  }
}

function showNews(before) {
  const known = new Set(before);
  for (const row of board.querySelectorAll("tr[data-number]")) {
    row.classList.toggle("new", !known.has(row.dataset.number));
  }
  if (listNumbers(board).join() !== before.join()) {
    document.getElementById("news").textContent = "The ranking changed.";
  }
  document.dispatchEvent(new Event("updated"));
}

function schedule() {
  timer ??= setTimeout(refresh, Math.max(0, refreshedAt + REFRESH_MS_MIN - performance.now()));
}

function follow() {
  if (document.hidden) {
    events?.close();
    events = null;
  } else if (events === null) {
    events = new EventSource(board.dataset.events);
    events.addEventListener("changed", schedule);
    events.addEventListener("error", () => {
      if (events?.readyState === EventSource.CLOSED) setTimeout(poll, POLL_MS);
    });
  }
}

function poll() {
  events = null;
  schedule();
  follow();
}

document.addEventListener("visibilitychange", follow);
follow();
