// Requests to the public API, with the key of this tab if there is one. A newer request always replaces an older one.
import { trouble } from "./dom.js";

export class Problem extends Error {
  constructor(body) {
    super(body.detail || body.title || "The service could not process the request.");
    this.errors = body.errors || [];
    this.body = body;
  }
}

const TRIES = 4;
const BUSY = ["/problems/overloaded", "/problems/too-many-at-once"];
const KEY = "headroom.key";

// The API key: only in the storage of this tab, which ends with it.
export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

function withKey(options) {
  const held = key.get();
  return held ? { ...options, headers: { ...options.headers, Authorization: `Bearer ${held}` } } : options;
}

// Sends a request again after Retry-After if the service is overloaded. Returns the response and its JSON body.
async function request(path, options) {
  for (let tries = 1; ; tries++) {
    const response = await fetch(path, withKey(options));
    const body = response.status === 204 ? null : await response.json();
    if (response.ok) return { body, etag: response.headers.get("ETag") };
    if (!BUSY.includes(body.type) || tries === TRIES) throw new Problem(body);
    await pause(1000 * response.headers.get("Retry-After"), options.signal);
  }
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason));
    setTimeout(resolve, ms);
  });
}

export const get = async (path, signal) => (await request(path, { signal })).body;

// A JSON body, or text of another type; `match` is the version that a change is for.
export function send(method, path, { body, type = "application/json", match, signal } = {}) {
  const headers = { ...(body === undefined ? {} : { "Content-Type": type }), ...(match ? { "If-Match": match } : {}) };
  return request(path, { method, headers, body: typeof body === "string" || body === undefined ? body : JSON.stringify(body), signal });
}

export const post = async (path, body, signal) => (await send("POST", path, { body, signal })).body;

// All items of a list, page by page.
export async function all(path) {
  const items = [];
  let after = "";
  do {
    const page = await get(`${path}${path.includes("?") ? "&" : "?"}limit=500${after}`);
    items.push(...page.items);
    after = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  } while (after);
  return items;
}

// Links do not send the key: with one, the page requests the file and saves it.
export async function save(event) {
  if (!key.get()) return;
  event.preventDefault();
  const asked = event.currentTarget;
  const response = await fetch(asked.href, withKey({}));
  if (!response.ok) return asked.after(...trouble(new Problem(await response.json())));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition"))?.[1] ?? "headroom";
  link.click();
  URL.revokeObjectURL(link.href);
}

// Wraps a request function so that only the newest call returns an answer; replaced or forgotten calls return null.
export function latest(ask) {
  let waiting = null;
  async function next(...question) {
    next.forget();
    const own = new AbortController();
    waiting = own;
    try {
      const answer = await ask(...question, own.signal);
      return waiting === own ? answer : null;
    } catch (error) {
      if (waiting !== own) return null;
      throw error;
    } finally {
      if (waiting === own) waiting = null;
    }
  }
  next.asking = () => waiting !== null;
  next.forget = () => {
    waiting?.abort();
    waiting = null;
  };
  return next;
}
