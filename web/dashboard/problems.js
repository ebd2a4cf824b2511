// What is wrong with a field, in words. Pure.

// "model_path: no file 'x'" without the field's name, which the label says already.
export const plainProblem = (text) => {
  const words = text.replace(/^[a-z_]+: /, "");
  return words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
};
