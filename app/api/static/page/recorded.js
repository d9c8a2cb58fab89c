// Reads recorded requests from text: CSV with or without names of its columns.
import { read } from "./numbers.js";

const TRACED = ["at_s", "input_tokens", "output_tokens", "prefix_tokens"];
const NAMES = [/^(at_s|arriv|time)/i, /input|prompt|context/i, /output|generat|completion|response/i, /prefix|cached/i];
// A request of 65,536 bytes holds as many entries.
const MOST = 800;
const WINDOW_S = 60;

// The columns of the fields of a request: by the names in the first line, or in order.
function columns(names) {
  const found = NAMES.map((pattern) => names.findIndex((name) => pattern.test(name)));
  return found.slice(0, 3).includes(-1) ? [0, 1, 2, 3] : found;
}

// A number, or the seconds of a date and time.
function value(text) {
  const number = read(text);
  return Number.isNaN(number) && /\d[-/T:]\d/.test(text) ? Date.parse(text.replace(" ", "T")) / 1000 : number;
}

// The requests of a text, from second 0 on. Throws an error that names the line that cannot be read.
export function readTrace(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  const parts = lines.map((line) => line.split(/[,;\t]/).map((part) => part.trim().replaceAll('"', "")));
  const named = parts[0].every((part) => /^[a-z_]/i.test(part));
  const places = named ? columns(parts[0]) : [0, 1, 2, 3];
  const requests = (named ? parts.slice(1) : parts).map((row) => {
    const numbers = places.map((place) => ((row[place] ?? "") === "" ? undefined : value(row[place])));
    if (numbers.slice(0, 3).includes(undefined)) throw new Error(`“${row.join(", ")}” does not have a time, input tokens and output tokens.`);
    const wrong = numbers.findIndex(Number.isNaN);
    if (wrong >= 0) throw new Error(`“${row[places[wrong]]}” is not a number.`);
    return Object.fromEntries(TRACED.map((name, i) => [name, numbers[i]]).filter(([, number]) => number !== undefined));
  });
  const start = requests.reduce((least, r) => Math.min(least, r.at_s), Infinity);
  return requests.map((r) => ({ ...r, at_s: Number((r.at_s - start).toFixed(3)) })).sort((a, b) => a.at_s - b.at_s);
}

export const writeTrace = (requests) => requests.map((each) => TRACED.map((name) => each[name]).filter((v) => v !== undefined).join(", ")).join("\n");

// The text to keep of a file, and a note: of a long trace, as many consecutive requests as one request of the API holds,
// which include its busiest minute. None if that minute alone has more: fewer would understate the load.
export function busiest(text) {
  let requests;
  try {
    requests = text.trim().startsWith("[") ? JSON.parse(text) : readTrace(text);
  } catch {
    return [text, "cannot be read"];
  }
  if (requests.length <= MOST) return [writeTrace(requests), `${requests.length.toLocaleString("en")} requests`];
  let [first, most, end] = [0, 0, 0];
  for (let i = 0; i < requests.length; i++) {
    while (end < requests.length && requests[end].at_s < requests[i].at_s + WINDOW_S) end++;
    if (end - i > most) [first, most] = [i, end - i];
  }
  if (most > MOST) {
    const mean = (name) => Math.round(requests.slice(first, first + most).reduce((sum, r) => sum + r[name], 0) / most).toLocaleString("en");
    return ["", `the busiest minute has ${most.toLocaleString("en")} requests, more than the page can send. Set Traffic to Requests per second and enter ${Number((most / WINDOW_S).toPrecision(3))}, with ${mean("input_tokens")} input and ${mean("output_tokens")} output tokens`];
  }
  const from = Math.max(0, Math.min(requests.length - MOST, first - Math.max(0, (MOST - most) >> 1)));
  const kept = requests.slice(from, from + MOST).map((r) => ({ ...r, at_s: Number((r.at_s - requests[from].at_s).toFixed(3)) }));
  return [writeTrace(kept), `${requests.length.toLocaleString("en")} requests; the busiest ${MOST} in a row are used`];
}
