// Rows of a batch: from prompts to what is sent, and to a file. Pure.

// The rows of a text with one prompt a line, each `times`; in the template, {} stands for the prompt and \n for a line
// end.
export function rowsOf(text, pattern, times) {
  const whole = pattern.replaceAll("\\n", "\n");
  const filled = (prompt) => (whole.includes("{}") ? whole.replaceAll("{}", () => prompt) : prompt);
  return text.split("\n").filter((line) => line.trim()).flatMap((line) => Array.from({ length: times }, () => ({ prompt: line, sent: filled(line), text: "", finish: null })));
}

const quoted = (value) => `"${value.replaceAll('"', '""')}"`;
export const csvOf = (list) => ["prompt,answer,finish", ...list.map((row) => [row.prompt, row.text, row.finish ?? ""].map(quoted).join(","))].join("\r\n");
