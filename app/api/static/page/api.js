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

export async function get(path) {
  return parsed(await fetch(path));
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return parsed(await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

// A line of questions of which only the newest is answered: the others give null.
export function latest(ask) {
  let waiting = null;
  return async (...question) => {
    waiting?.abort();
    const own = new AbortController();
    waiting = own;
    try {
      const answer = await ask(...question, own.signal);
      return waiting === own ? answer : null;
    } catch (error) {
      if (waiting !== own) return null;
      throw error;
    }
  };
}
