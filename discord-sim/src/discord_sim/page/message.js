// One message: its text, embeds, files, buttons and menus.

import { node, text } from "./text.js";

const EPHEMERAL = 64, LOADING = 128, ROW = 1, BUTTON = 2, MENU = 3, LINK = 5, SHOWN_MAX = 20000;

export function message(said, names, use, thread) {
  const item = node("li", { id: `message-${said.id}`, className: said.flags & EPHEMERAL ? "ephemeral" : "" });
  const at = new Date(said.timestamp).toLocaleTimeString("en", { timeStyle: "short" });
  const asker = said.interaction_metadata?.user;
  const notes = [at, said.edited_timestamp ? "edited" : "", said.message_reference || !asker ? "" : `asked by ${names.get(asker.id) ?? asker.username}`];
  item.append(
    node("span", { className: "face", textContent: (said.author.global_name ?? said.author.username)[0].toUpperCase() }),
    node("div", { className: "body" },
      node("span", { className: "who", textContent: said.author.global_name ?? said.author.username }),
      said.author.bot ? node("span", { className: "app", textContent: "APP" }) : null,
      node("span", { className: "when", textContent: notes.filter(Boolean).join(" · ") }),
      said.flags & LOADING ? node("div", { className: "note", textContent: "is thinking…" }) : text(said.content, names),
      ...said.embeds.map((one) => embed(one, names)),
      ...said.attachments.map(file),
      ...said.components.map((one) => component(one, said, use)),
      thread,
      said.flags & EPHEMERAL ? node("div", { className: "note", textContent: "👁 Only you can see this" }) : null,
    ),
  );
  return item;
}

function embed(said, names) {
  const box = node("div", { className: "embed" });
  if (said.color) box.style.borderColor = `#${said.color.toString(16).padStart(6, "0")}`;
  const fields = (said.fields ?? []).map((one) =>
    node("div", { className: one.inline ? "inline" : "" }, node("strong", { textContent: one.name }), text(one.value, names)));
  const ends = [said.footer?.text, said.timestamp && new Date(said.timestamp).toLocaleString("en")].filter(Boolean);
  box.append(
    ...[["note", said.author?.name], ["title", said.title]].filter(([, one]) => one).map(([className, one]) =>
      className === "title" && said.url
        ? node("a", { className, href: said.url, target: "_blank", rel: "noreferrer", textContent: one })
        : node("div", { className, textContent: one })),
    text(said.description, names),
    node("div", { className: "fields" }, ...fields),
    node("div", { className: "note", textContent: ends.join(" · ") }),
  );
  return box;
}

function file(said) {
  const link = node("a", { href: said.url, rel: "noreferrer", download: said.filename, textContent: `📎 ${said.filename}` });
  const is_image = said.content_type?.startsWith("image/");
  const inside = node("div");
  const look = node("details", {}, node("summary", { textContent: "look inside" }), inside);
  look.ontoggle = async () => {
    if (!look.open || inside.firstChild) return;
    const bytes = await (await fetch(said.url)).text();
    const cut = bytes.length > SHOWN_MAX ? `${bytes.slice(0, SHOWN_MAX)}\n…` : bytes;
    inside.append(node("pre", {}, node("code", { textContent: cut })));
  };
  const is_text = /^text\/|json|xml|python/.test(said.content_type ?? "") || /\.(txt|md|py|cu|json|diff|log|yml|csv)$/.test(said.filename);
  return node("div", { className: "file" }, link, node("span", { className: "note", textContent: size(said.size) }),
    is_image ? node("img", { src: said.url, alt: said.filename }) : is_text ? look : null);
}

function size(bytes) {
  return bytes < 1024 ? `${bytes} bytes` : bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

function component(said, whole, use) {
  if (said.type === ROW) return node("div", { className: "row" }, ...said.components.map((one) => component(one, whole, use)));
  if (said.type === BUTTON) return button(said, whole, use);
  if (said.type === MENU) return said.max_values > 1 ? menuOfMany(said, whole, use) : menu(said, whole, use);
  return node("span", { className: "note", textContent: `(component ${said.type})` });
}

function button(said, whole, use) {
  const label = [said.emoji?.name, said.label].filter(Boolean).join(" ");
  if (said.style === LINK) return node("a", { className: "button", href: said.url, textContent: `${label} ↗`, rel: "noreferrer", target: "_blank" });
  const onclick = () => use("click", { message: whole.id, custom_id: said.custom_id });
  return node("button", { className: `style${said.style}`, textContent: label, disabled: Boolean(said.disabled), onclick });
}

function menu(said, whole, use) {
  const chosen = node("select", { disabled: Boolean(said.disabled), ariaLabel: said.placeholder ?? "Menu" });
  chosen.append(new Option(said.placeholder ?? "Choose", ""));
  for (const one of said.options) chosen.append(new Option(one.label, one.value, one.default, one.default));
  chosen.onchange = () => chosen.value && use("select", { message: whole.id, custom_id: said.custom_id, values: [chosen.value] });
  return chosen;
}

// Several at once: boxes to tick, as many as the menu lets one.
function menuOfMany(said, whole, use) {
  const is_over = Boolean(said.disabled), least = said.min_values ?? 1;
  const boxes = said.options.map((one) => node("input", { type: "checkbox", value: one.value, checked: Boolean(one.default), disabled: is_over }));
  const ticked = () => boxes.filter((one) => one.checked).map((one) => one.value);
  const send = node("button", { className: "style1", textContent: "Choose", disabled: is_over });
  const look = () => { send.disabled = is_over || ticked().length < least || ticked().length > said.max_values; };
  send.onclick = () => use("select", { message: whole.id, custom_id: said.custom_id, values: ticked() });
  boxes.forEach((one) => { one.onchange = look; });
  look();
  const labels = said.options.map((one, n) => node("label", {}, boxes[n], ` ${one.label}`, one.description ? node("span", { className: "note", textContent: one.description }) : null));
  return node("fieldset", { className: "menu", disabled: is_over }, node("legend", { textContent: said.placeholder ?? "Choose" }), ...labels, send);
}
