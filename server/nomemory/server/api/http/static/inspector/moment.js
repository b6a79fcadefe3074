// Times as people read them, in this machine's time zone, and how long things took.
const made = new Map();

function format(options) {
  const language = document.documentElement.lang || "en";
  const key = language + JSON.stringify(options);
  if (!made.has(key)) made.set(key, new Intl.DateTimeFormat(language, options));
  return made.get(key);
}

export const day = (ts) => format({ year: "numeric", month: "short", day: "numeric" }).format(new Date(ts));
export const time = (ts) => format({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(new Date(ts));
export const month = (ts) => format({ year: "numeric", month: "short" }).format(new Date(ts));
export const dayAndTime = (ts) => `${day(ts)} ${time(ts)}`;
export const sameDay = (one, other) => new Date(one).toDateString() === new Date(other).toDateString();

// `1.5s`, as the contract writes durations, in milliseconds.
export const milliseconds = (duration) => Number.parseFloat(duration || "0") * 1000;

export function lasted(ms) {
  if (ms < 1) return "<1 ms";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
