// Adds a button to each command that can be copied. Without scripts, one click selects the command.
"use strict";

function addCopyButtons() {
  for (const block of document.querySelectorAll("pre.copy")) {
    // A transcript is copied without its prompts and its output.
    const text = block.dataset.copied ?? block.textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small second";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    });
    block.append(button);
  }
}

// Browsers let pages write to the clipboard only over HTTPS and on this machine.
if (navigator.clipboard) {
  addCopyButtons();
  document.addEventListener("page-replaced", addCopyButtons);
}
