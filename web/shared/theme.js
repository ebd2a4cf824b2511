// Light, dark, or as the system has it.

const NAME = "fulmar.theme";
export const THEMES = ["system", "light", "dark"];

export function theme() {
  try {
    const kept = localStorage.getItem(NAME);
    return THEMES.includes(kept) ? kept : "system";
  } catch {
    return "system";
  }
}

export function setTheme(name) {
  try {
    localStorage.setItem(NAME, name);
  } catch { /* a private window: the choice lasts as long as the page */ }
  applyTheme(name);
}

export function applyTheme(name = theme()) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}
