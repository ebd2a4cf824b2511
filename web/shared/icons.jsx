// The pages' icons: strokes on a grid of 24.

const PATHS = {
  plus: "M12 5v14M5 12h14",
  send: "M12 19V6M6 11.5 12 5.5l6 6",
  stop: "M8 8h8v8H8z",
  copy: "M9 9h10v11H9zM15 9V4H5v12h4",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M19 12a7 7 0 1 1-2-5M19 4v4h-4",
  branch: "M7 4v16M7 9c0 4 10 1 10 7M17 20v-4M4 7l3-3 3 3",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  raw: "M9 7l-5 5 5 5M15 7l5 5-5 5",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  menu: "M4 7h16M4 12h16M4 17h16",
  search: "M11 5a6 6 0 1 1 0 12 6 6 0 0 1 0-12zM16 16l4 4",
  sliders: "M4 8h9M17 8h3M4 16h3M11 16h9M15 6v4M9 14v4",
  attach: "M8 12.5 14.5 6a3 3 0 0 1 4.3 4.3L10.5 18.6a5 5 0 0 1-7-7L11 4",
  close: "M6 6l12 12M18 6 6 18",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  chart: "M5 19V9M12 19V5M19 19v-7",
  down: "M12 5v13M6 12.5l6 6 6-6",
  cube: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12 4 7.5",
  key: "M14 10a4 4 0 1 1-3-3.9L20 6v4h-3v3h-3z",
};

export function Icon({ name }) {
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M2 13c7-3 11 0 14 5 3-5 7-8 14-5-6 1-10 5-14 12C12 18 8 14 2 13z" />
    </svg>
  );
}
