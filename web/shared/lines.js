// The one reader of answers that come as a JSON value a line (application/x-ndjson). Knows no route.

// Splits text as it comes into whole lines; `rest` keeps what is not whole yet.
export class LineSplitter {
  rest = "";

  // The lines that are whole with `text`.
  push(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    return lines.filter((line) => line.trim() !== "");
  }
}

// Yields the value of each line until the answer ends; a last one without a line end counts, too.
export async function* valuesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const splitter = new LineSplitter();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      for (const line of splitter.push(done ? "\n" : value)) yield JSON.parse(line);
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
