// Requests to the public API. A newer request always replaces an older one.

export class Problem extends Error {
  constructor(body) {
    super(body.detail || body.title || "The service could not process the request.");
    this.errors = body.errors || [];
  }
}

const TRIES = 4;
const BUSY = ["/problems/overloaded", "/problems/too-many-at-once"];

// Sends a request again after Retry-After if the service is overloaded.
async function request(path, options) {
  for (let tries = 1; ; tries++) {
    const response = await fetch(path, options);
    const body = await response.json();
    if (response.ok) return body;
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

export function get(path, signal) {
  return request(path, { signal });
}

export function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
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
