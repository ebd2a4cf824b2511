// Starts the chat page.
import "../shared/base.css";
import "../shared/markdown.css";
import "./chat.css";
import { render } from "preact";
import { applyTheme } from "../shared/theme.js";
import { App } from "./app.jsx";
import { begin } from "./state.js";

applyTheme();
render(<App />, document.getElementById("app"));
begin();
