// The form of a command: one field an option, with what is offered while one types.

import { node } from "./text.js";

const NESTED = 2, STRING = 3, INTEGER = 4, BOOLEAN = 5, USER = 6, CHANNEL = 7, ROLE = 8, NUMBER = 10, ATTACHMENT = 11;
const WAIT_MS = 200;

export function leaves(commands) {
  const found = [];
  const walk = (said, path) => {
    const inner = (said.options ?? []).filter((one) => one.type <= NESTED);
    if (inner.length) inner.forEach((one) => walk(one, `${path} ${one.name}`));
    else found.push({ path, description: said.description, options: said.options ?? [] });
  };
  commands.filter((one) => one.type === 1).forEach((one) => walk(one, one.name));
  return found;
}

export function field(option, state, guess) {
  const input = made(option, state);
  input.name = option.name;
  input.required = Boolean(option.required) && option.type !== BOOLEAN;
  input.title = option.description;
  const list = node("datalist", { id: `offered-${option.name}` });
  if (option.autocomplete) {
    let timer = 0;
    const ask = async () => list.replaceChildren(...(await guess(option.name, input.value)).map((one) => new Option(one.name, one.value)));
    input.setAttribute("list", list.id);
    input.autocomplete = "off";
    input.onfocus = ask;
    input.oninput = () => { clearTimeout(timer); timer = setTimeout(ask, WAIT_MS); };
  }
  return node("label", {}, `${option.name}${option.required ? " *" : ""}`, input, list);
}

function made(option, state) {
  const choices = {
    [USER]: state.people.map((one) => [one.username, one.id]),
    [ROLE]: state.roles.map((one) => [one.name, one.id]),
    [CHANNEL]: state.channels.map((one) => [one.name, one.id]),
    [BOOLEAN]: [["yes", "true"], ["no", "false"]],
  }[option.type] ?? option.choices?.map((one) => [one.name, one.value]);
  if (choices) return node("select", {}, new Option("", ""), ...choices.map(([name, value]) => new Option(name, value)));
  const type = { [ATTACHMENT]: "file", [INTEGER]: "number", [NUMBER]: "number" }[option.type] ?? "text";
  return node("input", { type, step: option.type === INTEGER ? "1" : "any" });
}

export async function values(options, form) {
  const found = {};
  for (const { name, type } of options) {
    const input = form.elements.namedItem(name);
    if (type === ATTACHMENT && input.files[0]) found[name] = await sent(input.files[0]);
    else if (type === ATTACHMENT || input.value === "") continue;
    else if (type === INTEGER || type === NUMBER) found[name] = Number(input.value);
    else found[name] = type === BOOLEAN ? input.value === "true" : input.value;
  }
  return found;
}

async function sent(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return { name: file.name, media: file.type || "text/plain", base64: btoa(binary) };
}
