// Choices while a stack runs: scenario and ground, law and threats of shared control, the link, injected faults.

import {find, make} from "./elements.js";

/** @typedef {import("./model.js").SimulatorSettings} SimulatorSettings */

const PLACES = /** @type {const} */ (["scenario", "ground"]);
const SEEDS = /** @type {const} */ ({scenario: "scenario_seed", ground: "ground_seed"});
/** Label, value while active and inactive. */
const FAULTS = /** @type {const} */ ([["freeze_state", "state frozen", true, false], ["imposed_friction", "ice", 0.15, 0]]);
/** Faults of each sensor. */
const SENSOR_FAULTS = /** @type {const} */ ([["withheld_sensors", "off"], ["disturbed_sensors", "noisy"]]);
/** Label, unit, maximum. */
const LINK = /** @type {const} */ ([["jitter", "jitter, ms", 1000, 2000], ["drop", "lost, %", 100, 100]]);

const option = (/** @type {string} */ value) => make("option", {value, textContent: value || "level road"});
const labelOf = (/** @type {string} */ sensor, /** @type {string} */ fault) => sensor !== "scan" ? `${sensor} ${fault}` : fault === "off" ? "autonomy blind" : "LIDAR noisy";

export class Choices {
  /** @param {HTMLElement} place @param {(name: string, value: unknown) => void} request */
  constructor(place, request) {
    this.known = "";
    this.request = request;
    /** Settings in force. @type {Partial<SimulatorSettings>} */
    this.now = {};
    this.places = PLACES.map(name => ({name, seed: SEEDS[name], which: make("select", {id: `choose-${name}`}),
      number: make("input", {id: `choose-${SEEDS[name]}`, type: "number", min: "-1", step: "1", title: "-1: as its file says"})}));
    this.place = make("fieldset", {}, ...this.places.map(({name, which, number}) => make("label", {}, `${name} `, which, " seed ", number)),
      make("button", {id: "restart", type: "button", textContent: "restart with these", onclick: () => request("restart", this.#chosen())}));
    this.law = make("select", {id: "law", onchange: () => request("law", this.law.value)});
    this.threats = make("span", {id: "threats"});
    this.sharing = make("fieldset", {}, make("label", {}, "law ", this.law), this.threats, make("button", {id: "set-threats", type: "button",
      textContent: "threats by these", title: "shared control restarts, the vehicle brakes meanwhile", onclick: () => request("restart", {threats: this.#ticked()})}));
    this.links = LINK.map(([name, label, unit, max]) => {
      const input = make("input", {id: name, type: "number", min: "0", max: String(max), step: "1", onchange: () => request(name, Number(input.value) / unit)});
      return {key: /** @type {const} */ (`up_${name}`), unit, input, label: make("label", {}, `${label} `, input)};
    });
    this.link = make("fieldset", {}, ...this.links.map(({label}) => label));
    this.faults = FAULTS.map(([name, label, on, off]) => {
      const button = make("button", {id: name, type: "button", textContent: label, onclick: () => request(name, button.ariaPressed === "true" ? off : on)});
      return {name, button};
    });
    this.sensors = make("span", {id: "sensor-faults"});
    this.onPurpose = make("fieldset", {}, ...this.faults.map(({button}) => button), this.sensors);
    this.summary = make("summary");
    this.whole = make("details", {id: "choices", hidden: true}, this.summary, this.place, this.sharing, this.link, this.onPurpose);
    this.whole.addEventListener("change", event => /** @type {HTMLElement} */ (event.target).blur());  // keys drive again
    place.append(this.whole);
  }

  #ticked() {
    return [...this.threats.querySelectorAll("input")].filter(box => box.checked).map(box => box.name);
  }

  /** Returns the changed choices; unaffected nodes continue. */
  #chosen() {
    const chosen = this.places.flatMap(({name, seed, which, number}) => /** @type {const} */ ([[name, which.value], [seed, Math.trunc(Number(number.value))]]));
    const changed = chosen.filter(([name, value]) => value !== this.now[name]);
    return Object.fromEntries(changed.length ? changed : chosen);
  }

  /** Makes the buttons of the sensors' faults; returns the number of those that act. @param {Partial<SimulatorSettings>} active */
  #showSensors(active) {
    const focus = document.activeElement?.id;
    let count = 0;
    this.sensors.replaceChildren(...(active.sensors ?? []).flatMap(name => SENSOR_FAULTS.map(([fault, label]) => {
      const acting = active[fault] ?? [], on = acting.includes(name);
      count += Number(on);
      return make("button", {id: `${fault}-${name}`, type: "button", ariaPressed: String(on), textContent: labelOf(name, label),
        onclick: () => this.request(fault, on ? acting.filter(other => other !== name) : [...acting, name])});
    })));
    if (focus?.includes("_sensors-")) document.getElementById(focus)?.focus();
    return count;
  }

  /** Shows the settings that are in force, when they have changed. @param {import("./model.js").Texts} texts of the model */
  show({choices, settings, replay}) {
    const key = choices && settings && !replay ? JSON.stringify([choices, settings]) : "";
    if (key === this.known) return;
    this.known = key;
    this.whole.hidden = !key;
    if (!choices || !settings || replay) return;
    const {vehicle_simulator: simulator, shared_control: sharing, teleop_link: link} = settings.nodes, active = this.now = /** @type {Partial<SimulatorSettings>} */ ({...simulator});
    [this.place.hidden, this.sharing.hidden, this.link.hidden, this.onPurpose.hidden] = [!simulator, !sharing, !link, !simulator];
    for (const {name, seed, which, number} of this.places) {
      which.replaceChildren(...[...new Set([...choices[name], active[name] ?? ""])].map(option));
      which.value = active[name] ?? "";
      number.value = String(active[seed] ?? -1);
    }
    this.law.replaceChildren(...choices.law.map(option));
    this.law.value = sharing?.law ?? "";
    this.threats.replaceChildren(...choices.threats.map(name => make("label", {}, make("input", {type: "checkbox", name, checked: Boolean(sharing?.threats.includes(name))}), name)));
    for (const {key, unit, input} of this.links) input.value = String(Math.round(unit * (link?.[key] ?? 0)));
    for (const {name, button} of this.faults) button.ariaPressed = String(Boolean(active[name]));
    const count = this.faults.filter(({name}) => active[name]).length + this.#showSensors(active);
    this.summary.textContent = settings.restarting ? `restart: ${settings.restarting}` : `choices${count ? `, ${count} fault${count > 1 ? "s" : ""} ON PURPOSE` : ""}`;
    this.whole.classList.toggle("faulty", count > 0);
    for (const id of ["restart", "set-threats"]) find(id, HTMLButtonElement).disabled = Boolean(settings.restarting);
  }
}
