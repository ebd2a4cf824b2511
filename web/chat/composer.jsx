// Where messages are written: text, attached text files, send and stop.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { pickFiles } from "../shared/clipboard.js";
import { bytes } from "../shared/format.js";
import { Icon } from "../shared/icons.jsx";
import { attempt, IconButton, notify } from "../shared/ui.jsx";
import { send } from "./send.js";
import { busy, live, path } from "./state.js";

const MOST_FILE_BYTES = 1 << 20;

const draft = signal("");
const files = signal([]);

export const stopAnswers = () => path.value.forEach((node) => live.value.get(node.id)?.stop());

async function attach(list) {
  for (const file of list) {
    if (file.size > MOST_FILE_BYTES) {
      notify(`${file.name} has ${bytes(file.size)}; at most ${bytes(MOST_FILE_BYTES)} of text can be attached.`, true);
      continue;
    }
    const text = await file.text();
    if (text.includes("\0") || text.includes("\ufffd")) notify(`${file.name} is not a text file.`, true);
    else files.value = [...files.value.filter((one) => one.name !== file.name), { name: file.name, text }];
  }
}

function submit() {
  const [text, attached] = [draft.value.trim(), files.value];
  if (busy.value || (!text && attached.length === 0)) return;
  draft.value = "";
  files.value = [];
  attempt(() => send(text, attached));
}

const GROWS_BY_ITSELF = CSS.supports("field-sizing", "content");

export function Composer() {
  const place = useRef();
  useLayoutEffect(() => {
    if (GROWS_BY_ITSELF) return;
    place.current.style.height = "auto";
    place.current.style.height = `${place.current.scrollHeight}px`;
  }, [draft.value]);
  useEffect(() => { if (matchMedia("(hover: hover)").matches) place.current.focus(); }, []);
  const keys = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  };
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); if (busy.value) stopAnswers(); else submit(); }}
      onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); attach(event.dataTransfer.files); }}>
      {files.value.length > 0 && (
        <ul class="attached" aria-label="Attached files">
          {files.value.map((file) => (
            <li key={file.name}>{file.name}
              <IconButton icon="close" label={`Remove ${file.name}`} onClick={() => { files.value = files.value.filter((one) => one !== file); }} />
            </li>
          ))}
        </ul>
      )}
      <div class="box">
        <IconButton icon="attach" label="Attach text files" onClick={async () => attach(await pickFiles({ multiple: true }))} />
        <textarea id="prompt" ref={place} rows="1" aria-label="Message" placeholder="Write a message" autocomplete="off" enterkeyhint="send"
          value={draft.value} onInput={(event) => { draft.value = event.currentTarget.value; }} onKeyDown={keys}
          onPaste={(event) => { if (event.clipboardData.files.length > 0) { event.preventDefault(); attach(event.clipboardData.files); } }} />
        <button type="submit" class="round" aria-label={busy.value ? "Stop" : "Send"} title={busy.value ? "Stop (Esc)" : "Send (Enter)"}>
          <Icon name={busy.value ? "stop" : "send"} />
        </button>
      </div>
    </form>
  );
}
