// What a person may choose while a stack runs: scenario and ground, law and threats of shared control, the link, faults on purpose.

const PLACE = {scenario: "scenario_seed", ground: "ground_seed"};  // and the seed of each
const FAULTS = {freeze_state: ["state frozen", true, false], imposed_friction: ["ice", 0.15, 0]};
/** Of each sensor. @type {Record<string, (name: string) => string>} */
const SENSOR_FAULTS = {withheld_sensors: name => name === "scan" ? "autonomy blind" : `${name} off`,
  disturbed_sensors: name => `${name === "scan" ? "LIDAR" : name} noisy`};
/** Label, of a unit, most. @type {Record<string, [string, number, number]>} */
const LINK = {jitter: ["jitter, ms", 1000, 2000], drop: ["lost, %", 100, 100]};

const make = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const option = value => make("option", {value, textContent: value || "level road"});

export class Choices {
  /**
   * @param {HTMLElement} place
   * @param {(name: string, value: unknown) => void} request
   */
  constructor(place, request) {
    this.known = "";
    this.request = request;
    this.inputs = Object.fromEntries(Object.entries(PLACE).flatMap(([name, seed]) => [
      [name, make("select", {id: `choose-${name}`})],
      [seed, make("input", {id: `choose-${seed}`, type: "number", min: -1, step: 1, title: "-1: as its file says"})]]));
    this.place = make("fieldset", {}, ...Object.entries(PLACE).map(([name, seed]) => make("label", {}, `${name} `, this.inputs[name], " seed ", this.inputs[seed])),
      make("button", {id: "restart", type: "button", textContent: "restart with these", onclick: () => request("restart", this.#chosen())}));
    this.law = make("select", {id: "law", onchange: event => request("law", event.target.value)});
    this.threats = make("span", {id: "threats"});
    this.sharing = make("fieldset", {}, make("label", {}, "law ", this.law), this.threats, make("button", {id: "set-threats", type: "button",
      textContent: "threats by these", title: "shared control restarts, the vehicle brakes meanwhile", onclick: () => request("restart", {threats: this.#ticked()})}));
    this.link = make("fieldset", {}, ...Object.entries(LINK).map(([name, [label, unit, max]]) => make("label", {}, `${label} `,
      this.inputs[name] = make("input", {id: name, type: "number", min: 0, max, step: 1, onchange: event => request(name, Number(event.target.value) / unit)}))));
    this.faults = make("fieldset", {}, ...Object.entries(FAULTS).map(([name, [label, on, off]]) => this.inputs[name] = make("button", {id: name, type: "button",
      textContent: label, onclick: event => request(name, event.target.getAttribute("aria-pressed") === "true" ? off : on)})));
    this.faults.append(this.sensors = make("span", {id: "sensor-faults"}));
    this.summary = make("summary", {});
    this.whole = make("details", {id: "choices", hidden: true}, this.summary, this.place, this.sharing, this.link, this.faults);
    this.whole.addEventListener("change", event => /** @type {HTMLElement} */ (event.target).blur());  // keys drive again
    place.append(this.whole);
  }

  #ticked() {
    return [...this.threats.querySelectorAll("input")].filter(box => box.checked).map(box => box.name);
  }

  /** Returns what differs from what runs: a node that has none of it goes on. */
  #chosen() {
    const chosen = Object.fromEntries(Object.entries(PLACE).flatMap(([name, seed]) => [
      [name, this.inputs[name].value], [seed, Math.trunc(Number(this.inputs[seed].value))]]));
    const changed = Object.fromEntries(Object.entries(chosen).filter(([name, value]) => value !== this.now[name]));
    return Object.keys(changed).length ? changed : chosen;
  }

  /** Makes the buttons of the sensors' faults; returns the number of those that act. */
  #showSensors(active) {
    const focus = document.activeElement?.id;
    let count = 0;
    this.sensors.replaceChildren(...(active.sensors ?? []).flatMap(name => Object.entries(SENSOR_FAULTS).map(([fault, label]) => {
      const acting = active[fault], on = acting.includes(name);
      count += Number(on);
      return make("button", {id: `${fault}-${name}`, type: "button", ariaPressed: String(on), textContent: label(name),
        onclick: () => this.request(fault, on ? acting.filter(other => other !== name) : [...acting, name])});
    })));
    if (focus?.includes("_sensors-")) document.getElementById(focus)?.focus();
    return count;
  }

  /**
   * Shows the settings that are in force, when they have changed.
   * @param {Record<string, any>} texts of the model
   */
  show({choices, settings, replay}) {
    const key = choices && settings && !replay ? JSON.stringify([choices, settings]) : "";
    if (key === this.known) return;
    this.known = key;
    this.whole.hidden = !key;
    if (!key) return;
    const {vehicle_simulator: simulator, shared_control: sharing, teleop_link: link} = settings.nodes, active = simulator ?? {};
    this.now = {...active};
    [this.place.hidden, this.sharing.hidden, this.link.hidden, this.faults.hidden] = [!simulator, !sharing, !link, !simulator];
    for (const name of Object.keys(PLACE)) {
      this.inputs[name].replaceChildren(...[...new Set([...choices[name], active[name] ?? ""])].map(option));
      this.inputs[name].value = active[name] ?? "";
      this.inputs[PLACE[name]].value = String(active[PLACE[name]] ?? -1);
    }
    this.law.replaceChildren(...choices.law.map(option));
    this.law.value = sharing?.law ?? "";
    this.threats.replaceChildren(...choices.threats.map(name => make("label", {}, make("input", {type: "checkbox", name, checked: Boolean(sharing?.threats.includes(name))}), name)));
    for (const [name, [, unit]] of Object.entries(LINK)) this.inputs[name].value = String(Math.round(unit * (link?.[`up_${name}`] ?? 0)));
    const pressed = Object.keys(FAULTS).filter(name => active[name]), count = pressed.length + this.#showSensors(active);
    for (const name of Object.keys(FAULTS)) this.inputs[name].setAttribute("aria-pressed", String(pressed.includes(name)));
    this.summary.textContent = settings.restarting ? `restart: ${settings.restarting}` : `choices${count ? `, ${count} fault${count > 1 ? "s" : ""} ON PURPOSE` : ""}`;
    this.whole.classList.toggle("faulty", count > 0);
    for (const id of ["restart", "set-threats"]) /** @type {HTMLButtonElement} */ (document.getElementById(id)).disabled = Boolean(settings.restarting);
  }
}
