// Light, dark, or as the system has it.
const KEPT_AS = "nomemory-theme";
const THEMES = ["system", "light", "dark"];

export const theme = () => (THEMES.includes(localStorage.getItem(KEPT_AS)) ? localStorage.getItem(KEPT_AS) : "system");

export function wear(chosen) {
  localStorage.setItem(KEPT_AS, chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

export const next = () => THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
