// The one fetch wrapper: addresses below the page, the key, and errors in the words of the server.

// What the server refused, with its status; status 0 means that it did not answer at all.
export class ServerError extends Error {
  constructor(message, status = 0, code = null) {
    super(message);
    this.name = "ServerError";
    this.status = status;
    this.code = code;
  }
}

// The message in any of the server's error shapes: {error:{message}}, {error:"..."}, {detail:"..."}, {detail:[{msg}]}.
export function errorText(body, fallback) {
  try {
    const { error, detail } = JSON.parse(body);
    if (Array.isArray(detail)) return detail.map((item) => `${item.loc?.at(-1) ?? ""} ${item.msg}`.trim()).join("; ");
    return error?.message ?? error ?? detail ?? fallback;
  } catch {
    return body.trim() || fallback;
  }
}

async function refusal(response) {
  const body = await response.text().catch(() => "");
  let parsed = null;
  try {
    parsed = JSON.parse(body);
  } catch { /* not JSON: errorText takes it as it is */ }
  const error = new ServerError(errorText(body, `${response.status} ${response.statusText}`), response.status, parsed?.error?.code ?? null);
  error.detail = parsed?.detail ?? null;
  return error;
}

export class Server {
  // `base`: the address that paths are relative to, ending in a slash. `askKey()`: asks the user for the key when the
  // server wants one; resolves to it, or to null.
  constructor(base = new URL(".", document.baseURI).href, askKey = async () => null) {
    this.base = base;
    this.askKey = askKey;
    this.key = null;
  }

  // The same server below `path`.
  below(path) {
    const other = new Server(new URL(path, this.base).href, this.askKey);
    other.key = this.key;
    return other;
  }

  address(path) {
    return new URL(path, this.base).href;
  }

  // A successful Response; else throws ServerError, or AbortError when `signal` fired.
  async send(path, { method = "GET", json, body, headers = {}, signal } = {}) {
    const fields = { ...headers };
    if (this.key) fields.Authorization = `Bearer ${this.key}`;
    if (json !== undefined) fields["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(this.address(path), {
        method, headers: fields, signal, body: json === undefined ? body : JSON.stringify(json),
      });
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      throw new ServerError("The server does not answer.");
    }
    if (response.ok) return response;
    const error = await refusal(response);
    if (response.status === 401) {
      const key = await this.askKey(this.key !== null);
      if (key) {
        this.key = key;
        return this.send(path, { method, json, body, headers, signal });
      }
    }
    throw error;
  }

  async get(path, options) {
    return (await this.send(path, options)).json();
  }

  async post(path, json = {}, options = {}) {
    return (await this.send(path, { ...options, method: "POST", json })).json();
  }

  async delete(path) {
    return (await this.send(path, { method: "DELETE" })).json();
  }
}
