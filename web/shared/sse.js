// The one reader of server-sent events: bytes of a response to the data of each event. Knows no route.

// A stream that ended before its last event: what came is not the whole answer.
export class CutStream extends Error {
  constructor() {
    super("The connection broke off before the answer was complete.");
    this.name = "CutStream";
  }
}

// Splits text as it comes into whole events; `rest` keeps what is not whole yet.
export class EventSplitter {
  rest = "";

  // The data of the events that are whole with `text`.
  push(text) {
    const parts = (this.rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = parts.pop();
    return parts.map(dataOf).filter((data) => data !== null);
  }
}

// The lines of an event that carry data, joined; null for comments and other fields.
function dataOf(event) {
  const lines = event.split("\n").filter((line) => line.startsWith("data:"));
  return lines.length > 0 ? lines.map((line) => line.slice(line[5] === " " ? 6 : 5)).join("\n") : null;
}

// Yields the parsed data of each event up to "[DONE]". Throws CutStream when the stream ends without it.
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const splitter = new EventSplitter();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new CutStream();
      for (const data of splitter.push(value)) {
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
    }
  } catch (problem) {
    // A broken connection is a TypeError or a network error by browser.
    throw problem instanceof TypeError ? new CutStream() : problem;
  } finally {
    reader.cancel().catch(() => {});
  }
}
