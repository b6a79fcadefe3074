// Highlights spans of a text. Spans count Unicode code points, JavaScript strings UTF-16 code units.
import { element } from "./element.js";

// Return the nodes of a text with its spans in <mark>. `start` is the offset of the text in the content.
export function marked(text, spans = [], start = 0) {
  const points = Array.from(text);
  const nodes = [];
  let done = 0;
  for (const span of spans) {
    const [from, to] = [(span.start ?? 0) - start, (span.end ?? 0) - start];
    if (to <= done || from >= points.length) continue;
    const begin = Math.max(from, done);
    if (begin > done) nodes.push(points.slice(done, begin).join(""));
    nodes.push(element("mark", { text: points.slice(begin, to).join("") }));
    done = Math.min(to, points.length);
  }
  if (done < points.length) nodes.push(points.slice(done).join(""));
  return nodes;
}

// Return the beginning of a text.
export function beginning(text, chars = 400) {
  return text.length > chars ? text.slice(0, chars) : text;
}
