// Where the text goes that is typed into the page. Pure.

const isLoopback = (host) => host === "localhost" || host === "[::1]" || host.startsWith("127.");

// In words, for the address of the page.
export function whereabouts({ hostname, protocol }) {
  if (isLoopback(hostname)) return "The model runs on this machine. Nothing leaves it.";
  const open = protocol === "http:" ? " The connection is not encrypted: others on the network can read it." : "";
  return `The model runs on ${hostname}. What you write goes there and nowhere else.${open}`;
}
