// Formats dates, times and durations in the time zone of the browser.
const formatters = new Map();

function format(options) {
  const language = document.documentElement.lang || "en";
  const key = language + JSON.stringify(options);
  if (!formatters.has(key)) formatters.set(key, new Intl.DateTimeFormat(language, options));
  return formatters.get(key);
}

export const day = (ts) => format({ year: "numeric", month: "short", day: "numeric" }).format(new Date(ts));
export const time = (ts) => format({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(new Date(ts));
export const month = (ts) => format({ year: "numeric", month: "short" }).format(new Date(ts));
export const dayAndTime = (ts) => `${day(ts)} ${time(ts)}`;

const MOMENTS = { day, time, dayAndTime };

// Format a timestamp as a day, a time, or both.
export const moment = (ts, format = "dayAndTime") => MOMENTS[format](ts);
export const sameDay = (first, second) => new Date(first).toDateString() === new Date(second).toDateString();

// Convert a protobuf duration such as `1.5s` to milliseconds.
export const milliseconds = (duration) => Number.parseFloat(duration || "0") * 1000;

export function formatDuration(ms) {
  if (ms < 1) return "<1 ms";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
