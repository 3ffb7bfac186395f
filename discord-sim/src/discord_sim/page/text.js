// Text as Discord shows it, made of nodes alone: whatever a bot says stays text.

const FENCE = /```(?:[\w+-]*\n)?([\s\S]*?)```/g;
const LINE = /^(#{1,3} |-# |> |- |\* )?(.*)$/;
const BLOCKS = { "# ": "h2", "## ": "h3", "### ": "h4", "-# ": "small", "> ": "blockquote", "- ": "li", "* ": "li" };
const PIECE = new RegExp([
  /\\([^A-Za-z0-9\s])/, /``([^\n]+?)``/, /`([^`\n]+)`/, /\*\*([\s\S]+?)\*\*/, /__([\s\S]+?)__/, /~~([\s\S]+?)~~/,
  /\*([^*\s][^*]*)\*/, /\b_([^_\s][^_]*)_\b/, /<t:(-?\d+)(?::([tTdDfFR]))?>/, /<@!?(\d+)>/, /<@&(\d+)>/, /<#(\d+)>/,
  /<\/([\w -]+):\d+>/, /<a?:(\w+):\d+>/, /\[([^\]\n]+)\]\(<?(https?:[^\s)>]+)>?\)/, /<?(https?:\/\/[^\s<>)]+)>?/,
].map((one) => one.source).join("|"), "g");
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const FORMS = {
  t: { timeStyle: "short" }, T: { timeStyle: "medium" }, d: { dateStyle: "short" }, D: { dateStyle: "long" },
  f: { dateStyle: "long", timeStyle: "short" }, F: { dateStyle: "full", timeStyle: "short" },
};

export function node(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.filter((one) => one !== null && one !== undefined));
  return made;
}

export function text(said, names) {
  const found = node("div", { className: "text" }), whole = said ?? "";
  let last = 0;
  for (const piece of whole.matchAll(FENCE)) {
    found.append(...lines(whole.slice(last, piece.index), names), node("pre", {}, node("code", { textContent: piece[1].replace(/\n$/, "") })));
    last = piece.index + piece[0].length;
  }
  found.append(...lines(whole.slice(last), names));
  return found;
}

function lines(said, names) {
  const trimmed = said.replace(/^\n|\n$/g, "");
  if (!trimmed) return [];
  return trimmed.split("\n").map((line) => {
    const [, mark, rest] = line.match(LINE);
    return node("div", { className: mark ? BLOCKS[mark] : "line" }, ...inline(rest, names));
  });
}

function inline(said, names) {
  const found = [];
  let last = 0;
  for (const piece of said.matchAll(PIECE)) {
    found.push(said.slice(last, piece.index), shown(piece, names));
    last = piece.index + piece[0].length;
  }
  return [...found, said.slice(last)].filter((one) => one !== "");
}

function shown(piece, names) {
  const [whole, plain, code2, code, bold, under, struck, slanted, slanted2, unix, style, user, role, channel, command, emoji, label, link, url] = piece;
  if (plain !== undefined) return plain;
  if (code2 ?? code) return node("code", { textContent: code2 ?? code });
  const [name, inner] = [["strong", bold], ["u", under], ["s", struck], ["em", slanted ?? slanted2]].find(([, one]) => one !== undefined) ?? [];
  if (name) return node(name, {}, ...inline(inner, names));
  if (unix !== undefined) return time(Number(unix), style ?? "f");
  if (emoji) return `:${emoji}:`;
  if (link ?? url) return node("a", { href: link ?? url, target: "_blank", rel: "noreferrer", textContent: label ?? url });
  if (command) return node("span", { className: "mention", textContent: `/${command}` });
  const called = names.get(user ?? role ?? channel);
  return node("span", { className: "mention", textContent: called ? (channel ? "#" : "@") + called.replace(/^#/, "") : whole });
}

function time(unix, style) {
  const at = new Date(unix * 1000);
  const textContent = style === "R" ? relative(unix) : new Intl.DateTimeFormat("en", FORMS[style]).format(at);
  return node("time", { textContent, title: at.toISOString() });
}

function relative(unix) {
  const left = unix - Date.now() / 1000;
  const [unit, seconds] = UNITS.find(([, one]) => Math.abs(left) >= one) ?? UNITS.at(-1);
  return new Intl.RelativeTimeFormat("en").format(Math.round(left / seconds), unit);
}
