// The public API, and nothing else. A later question always wins over an earlier one.

export class Problem extends Error {
  constructor(body) {
    super(body.detail || body.title || "The service could not answer.");
    this.errors = body.errors || [];
  }
}

async function parsed(response) {
  const body = await response.json();
  if (!response.ok) throw new Problem(body);
  return body;
}

export async function get(path, signal) {
  return parsed(await fetch(path, { signal }));
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return parsed(await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

// A line of questions of which only the newest is answered: the others give null, and so does one that is forgotten.
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
