// One message: its text, embeds, files, buttons and menus.

import { node, text } from "./text.js";

const EPHEMERAL = 64, LOADING = 128, ROW = 1, BUTTON = 2, LINK = 5;

export function message(said, names, use) {
  const item = node("li", { className: said.flags & EPHEMERAL ? "ephemeral" : "" });
  const at = new Date(said.timestamp).toLocaleTimeString();
  const notes = [at, said.edited_timestamp ? "edited" : "", said.flags & EPHEMERAL ? "only you see this" : ""];
  item.append(
    node("span", { className: "who", textContent: said.author.global_name ?? said.author.username }),
    node("span", { className: "when", textContent: notes.filter(Boolean).join(" · ") }),
    said.flags & LOADING ? node("div", { className: "note", textContent: "is thinking…" }) : text(said.content, names),
    ...said.embeds.map((one) => embed(one, names)),
    ...said.attachments.map(file),
    ...said.components.map((one) => component(one, said, use)),
  );
  return item;
}

function embed(said, names) {
  const box = node("div", { className: "embed" });
  if (said.color) box.style.borderColor = `#${said.color.toString(16).padStart(6, "0")}`;
  const fields = (said.fields ?? []).map((one) =>
    node("div", {}, node("strong", { textContent: one.name }), text(one.value, names)));
  box.append(
    node("h3", { textContent: said.title ?? "" }),
    text(said.description, names),
    node("div", { className: "fields" }, ...fields),
    node("div", { className: "note", textContent: said.footer?.text ?? "" }),
  );
  return box;
}

function file(said) {
  const link = node("a", { href: said.url, target: "_blank", rel: "noreferrer", download: said.filename });
  link.textContent = `📎 ${said.filename}, ${said.size} bytes`;
  return node("div", {}, link);
}

function component(said, whole, use) {
  if (said.type === ROW) return node("div", { className: "row" }, ...said.components.map((one) => component(one, whole, use)));
  if (said.type === BUTTON) return button(said, whole, use);
  if (said.type === 3) return menu(said, whole, use);
  return node("span", { className: "note", textContent: `(component ${said.type})` });
}

function button(said, whole, use) {
  const label = [said.emoji?.name, said.label].filter(Boolean).join(" ");
  if (said.style === LINK) return node("a", { href: said.url, textContent: label, rel: "noreferrer", target: "_blank" });
  const onclick = () => use("click", { message: whole.id, custom_id: said.custom_id });
  return node("button", { className: `style${said.style}`, textContent: label, disabled: Boolean(said.disabled), onclick });
}

function menu(said, whole, use) {
  const is_many = said.max_values > 1;
  const chosen = node("select", { multiple: is_many, disabled: Boolean(said.disabled), ariaLabel: said.placeholder ?? "Menu" });
  if (!is_many) chosen.append(new Option(said.placeholder ?? "Choose", ""));
  for (const one of said.options) chosen.append(new Option(one.label, one.value, one.default, one.default));
  const send = () => use("select", {
    message: whole.id, custom_id: said.custom_id, values: [...chosen.selectedOptions].map((one) => one.value).filter(Boolean),
  });
  if (!is_many) chosen.onchange = send;
  const choose = is_many ? node("button", { textContent: said.placeholder ?? "Choose", onclick: send, disabled: chosen.disabled }) : null;
  return node("span", { className: "row" }, chosen, choose);
}
