// Text as Discord shows it, made of nodes alone: whatever a bot says stays text.

const PIECE = /```(?:[\w+-]*\n)?([\s\S]*?)```|`([^`\n]+)`|\*\*([^*]+)\*\*|<t:(-?\d+)(?::([tTdDfFR]))?>|<@!?(\d+)>|<@&(\d+)>|<#(\d+)>/g;
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export function node(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.filter((one) => one !== null && one !== undefined));
  return made;
}

export function text(said, names) {
  const found = node("div", { className: "text" });
  let last = 0;
  for (const piece of (said ?? "").matchAll(PIECE)) {
    found.append(said.slice(last, piece.index), shown(piece, names));
    last = piece.index + piece[0].length;
  }
  found.append((said ?? "").slice(last));
  return found;
}

function shown([whole, fence, code, bold, unix, style, user, role, channel], names) {
  if (fence !== undefined) return node("pre", {}, node("code", { textContent: fence }));
  if (code !== undefined) return node("code", { textContent: code });
  if (bold !== undefined) return node("strong", { textContent: bold });
  if (unix !== undefined) return time(Number(unix), style ?? "f");
  const name = names.get(user ?? role ?? channel);
  const sign = channel ? "#" : "@";
  return node("span", { className: "mention", textContent: name ? sign + name : whole });
}

function time(unix, style) {
  const at = new Date(unix * 1000);
  const textContent = style === "R" ? relative(unix) : at.toLocaleString();
  return node("time", { textContent, title: at.toISOString() });
}

function relative(unix) {
  const left = unix - Date.now() / 1000;
  const [unit, seconds] = UNITS.find(([, one]) => Math.abs(left) >= one) ?? UNITS.at(-1);
  return new Intl.RelativeTimeFormat("en").format(Math.round(left / seconds), unit);
}
