// Starts the dashboard.
import "../shared/base.css";
import { render } from "preact";
render(<p>later, replaced at once</p>, document.getElementById("app"));
