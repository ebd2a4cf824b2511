// The order of the list of conversations. Pure.

const DAY = 86_400_000;

// [title, conversations] in the order of the list
export function groupsOf(list, now = Date.now()) {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const age = ({ updated }) => (updated >= midnight ? "Today" : updated >= midnight - 6 * DAY ? "This week" : "Earlier");
  const groups = new Map([["Pinned", []]]);
  const folders = [...new Set(list.map((one) => one.folder).filter(Boolean))].sort();
  for (const name of [...folders, "Today", "This week", "Earlier"]) groups.set(name, []);
  for (const one of list) groups.get(one.pinned ? "Pinned" : one.folder || age(one)).push(one);
  return [...groups].filter(([, members]) => members.length > 0).map(([title, members]) => ({ title, members, folder: folders.includes(title) }));
}
