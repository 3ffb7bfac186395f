// Shows new rows and records of a leaderboard while its page is visible. Without scripts: reload.
"use strict";

const REFRESH_MS_MIN = 500;
// Where no stream can be opened, such as when too many are.
const POLL_MS = 10000;

const board = document.getElementById("board");
let events = null;
let timer = null;
let refreshedAt = -REFRESH_MS_MIN;
// As it was sent: static/times.js changes how instants are shown.
let shown = board.innerHTML;

function listNumbers(element) {
  return [...element.querySelectorAll("tr[data-number]")].map((row) => row.dataset.number);
}

async function refresh() {
  timer = null;
  refreshedAt = performance.now();
  const response = await fetch(location.href);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const update = page.getElementById("board");
  if (update === null || update.innerHTML === shown) return;
  shown = update.innerHTML;
  replaceBoard(update);
}

function replaceBoard(update) {
  const before = listNumbers(board);
  const known = new Set(before);
  const opened = [...board.querySelectorAll("details")].map((details) => details.open);
  const focused = board.contains(document.activeElement) ? document.activeElement : null;
  board.replaceChildren(...update.childNodes);
  board.querySelectorAll("details").forEach((details, index) => { details.open = opened[index] });
  if (focused?.hasAttribute("href")) {
    const href = CSS.escape(focused.getAttribute("href"));
    board.querySelector(`a[href="${href}"]`)?.focus();
  }
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
