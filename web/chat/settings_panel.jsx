// The settings: preset, sampling, stops, schema, thinking, and how the page looks.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { setTheme, theme, THEMES } from "../shared/theme.js";
import { asked, attempt, Dialog, Field } from "../shared/ui.jsx";
import { DEFAULTS, NUMBERS, presetOf, PRESETS, samplingOf, schemaProblem, splitModel, statesOf, THINKING, withPreset } from "./settings.js";
import { changeSettings, chooseModel, dropPreset, model, models, ownPresets, presets, savePreset, settings } from "./state.js";

export const settingsShown = signal(false);

// A text input that saves valid values as they are typed.
function NumberField({ field }) {
  const [problem, setProblem] = useState(null);
  const take = (event) => {
    const { value, validity } = event.currentTarget;
    setProblem(validity.valid ? null : `Wanted ${field.min} to ${field.max}.`);
    if (validity.valid) changeSettings({ [field.name]: value });
  };
  return (
    <Field label={field.label} hint={field.hint} problem={problem}>
      <input type="number" name={field.name} min={field.min} max={field.max} step="any" inputmode="decimal" aria-invalid={problem !== null}
        placeholder="server's choice" value={settings.value[field.name]} onInput={take} />
    </Field>
  );
}

function Presets() {
  const chosen = presetOf(settings.value, presets.value);
  const own = ownPresets.value.some((one) => one.name === chosen);
  const save = async () => {
    const name = await asked("Save as a preset", "Name", "");
    if (name?.trim()) await savePreset(name.trim(), samplingOf(settings.value));
  };
  return (
    <div class="presets">
      <Field label="Preset">
        <select value={chosen ?? ""} onChange={(event) => changeSettings(samplingOf(withPreset(settings.value, presets.value[event.currentTarget.value])))}>
          {!chosen && <option value="">your own values</option>}
          {Object.keys(presets.value).map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </Field>
      {!chosen && <button type="button" class="quiet framed" onClick={() => attempt(save)}>Save as a preset</button>}
      {own && !(chosen in PRESETS) && <button type="button" class="quiet framed" onClick={() => attempt(() => dropPreset(chosen))}>Delete preset</button>}
    </div>
  );
}

function Check({ name, children }) {
  return (
    <label class="check">
      <input type="checkbox" checked={settings.value[name]} onChange={(event) => changeSettings({ [name]: event.currentTarget.checked })} /> {children}
    </label>
  );
}

// A conversation begins in the state's manner, and its turns go on from there.
function TunedState() {
  const { base, state } = splitModel(model.value);
  const states = statesOf(models.value, base);
  if (states.length === 0) return null;
  const choose = (event) => attempt(() => chooseModel(event.currentTarget.value ? `${base} ${event.currentTarget.value}` : base));
  return (
    <Field label="Tuned state" hint={`of ${base}`}>
      <select value={state} onChange={choose}>
        <option value="">none</option>
        {states.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </Field>
  );
}

export function SettingsPanel() {
  const [look, setLook] = useState(theme());
  const text = (name) => ({ value: settings.value[name], onInput: (event) => changeSettings({ [name]: event.currentTarget.value }) });
  return (
    <Dialog title="Settings" wide onClose={() => { settingsShown.value = false; }}>
      <Field label="System prompt" wide><textarea rows="3" placeholder="None" {...text("system")} /></Field>
      <Presets />
      <div class="grid">{NUMBERS.map((field) => <NumberField key={field.name} field={field} />)}
        <Field label="Thinking">
          <select value={settings.value.think} onChange={(event) => changeSettings({ think: event.currentTarget.value })}>
            {THINKING.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
          </select>
        </Field>
        <TunedState />
      </div>
      <Field label="Stop texts" hint="one a line; \n is a line end. None: the model's own" wide><textarea rows="2" spellcheck={false} class="mono" {...text("stop")} /></Field>
      <Field label="JSON schema" hint="the answer follows it" wide problem={schemaProblem(settings.value.schema)}>
        <textarea rows="3" spellcheck={false} class="mono" placeholder='{"type":"object","properties":{}}' {...text("schema")} />
      </Field>
      <Check name="sessions">Keep each turn's state on the server: only what is new is sent</Check>
      <Check name="logprobs">Ask for log-probabilities with each answer</Check>
      <Field label="Theme">
        <select value={look} onChange={(event) => { setLook(event.currentTarget.value); setTheme(event.currentTarget.value); }}>
          {THEMES.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </Field>
      <div class="actions">
        <button type="button" class="quiet" onClick={() => changeSettings(DEFAULTS)}>Reset</button>
        <button type="button" class="primary" onClick={() => { settingsShown.value = false; }}>Done</button>
      </div>
    </Dialog>
  );
}
