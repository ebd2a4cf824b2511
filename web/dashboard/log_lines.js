// Lines of a log by level and words. Pure.

const RANK = { trace: 0, debug: 0, info: 1, warning: 2, error: 3, critical: 3 };

// The level of a line as the program writes it; lines of anything else have none.
export const levelOf = (line) => /^\d{4}-\S+ (trace|debug|info|warning|error|critical) /.exec(line)?.[1] ?? null;

// The lines with `words` at `level` or worse; a line without a level belongs to the one before it.
export function linesOf(lines, words, level) {
  const sought = words.toLowerCase();
  const least = level ? RANK[level] : -1;
  let rank = 1;
  return lines.filter((line) => {
    rank = RANK[levelOf(line)] ?? rank;
    return rank >= least && (!sought || line.toLowerCase().includes(sought));
  });
}
