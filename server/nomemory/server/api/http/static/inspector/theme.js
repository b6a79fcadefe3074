// The theme: light, dark, or that of the system.
const STORAGE_KEY = "nomemory-theme";
const THEMES = ["system", "light", "dark"];

export const theme = () => (THEMES.includes(localStorage.getItem(STORAGE_KEY)) ? localStorage.getItem(STORAGE_KEY) : "system");

export function setTheme(chosen) {
  localStorage.setItem(STORAGE_KEY, chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

export const nextTheme = () => THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
