// The clipboard and files, also on pages that came by plain HTTP, where browsers keep the clipboard API back.

// Whether `text` was copied.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.setAttribute("readonly", "");
    area.className = "offscreen";
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

// Hands `content` to the user as a file.
export function saveFile(name, content, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The files that the user picks; none when the choice is called off.
export function pickFiles({ accept = "", multiple = false } = {}) {
  return new Promise((resolve) => {
    const input = document.createElement("input");
    input.type = "file";
    input.accept = accept;
    input.multiple = multiple;
    input.addEventListener("change", () => resolve([...input.files]));
    input.addEventListener("cancel", () => resolve([]));
    input.click();
  });
}

// A file name from any title.
export const fileTitle = (title) => title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "fulmar";
