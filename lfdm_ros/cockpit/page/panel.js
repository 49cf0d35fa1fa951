// Texts and bars beside the view.

import {context2d, find, make} from "./elements.js";

/** @typedef {import("./model.js").Texts} Texts */
/** @typedef {{name: string, canvas: HTMLCanvasElement, value: HTMLElement}} Bar */

/** Units of speed, per m/s. @type {Record<string, number>} */
export const UNITS = {"km/h": 3.6, "m/s": 1, mph: 2.236936};
/** Texts of the states of shared control. @type {Record<string, string>} */
const DRIVERS = {waiting: "nobody yet", operator_alone: "operator", autonomy_lost: "operator", state_lost: "operator", autonomy_alone: "autonomy",
  operator_lost: "autonomy", stopping: "nobody, stopping", minimum_risk: "nobody, minimum-risk manoeuvre", emergency_stop: "nobody, emergency stop"};
const WHEELS = ["front left", "front right", "rear left", "rear right"];
const LIFTED = 0.05;  // of the load at rest

/** @param {string} id @param {string} text */
const set = (id, text) => { const element = find(id); if (element.textContent !== text) element.textContent = text; };
const clock = (/** @type {number} */ seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
const number = (/** @type {unknown} */ value, digits = 1) => typeof value === "number" && Number.isFinite(value) ? value.toFixed(digits) : "-";

/** Names the driver in words. @param {import("./model.js").Model} model */
export function driver(model) {
  const {sharing, simulator, replay} = model.texts, values = model.sharing, seat = replay ? null : model.texts.seat;
  if (seat?.stopped || sharing?.emergency_stop) {
    const stands = sharing ? sharing.emergency_stop : !model.state || Math.abs(model.state.vx) < 0.1;
    return stands ? "STOPPED: the driver's resume ends it" : "STOP asked for, not yet confirmed";
  }
  if (simulator?.paused) return "paused";
  if (sharing && values) {
    const name = DRIVERS[sharing.state] ?? (values.k < 0.01 ? "operator" : values.k > 0.99 ? "autonomy"
      : `operator ${Math.round(100 - 100 * values.k)} %, autonomy ${Math.round(100 * values.k)} %`);
    return `${name}${name.includes("%") || name.startsWith("nobody") ? "" : " drives"}: ${sharing.reason}`;
  }
  if (!model.state) return "waits for a vehicle";
  if (seat?.drives) return `${seat.yours ? "you drive" : `${seat.driver} drives`}`;
  if (replay) return `replay of ${replay.name}${replay.other ? `, ghost: ${replay.other}` : ""}`;
  return simulator?.no_command ? "nobody drives, the vehicle brakes" : "others drive";
}

const OFFER = "autonomy OFFERS TO DRIVE ON: while you hold (Shift, the pad's button, the left thumb), press the brake and let go of it";

/** @param {Texts["sharing"]} sharing @returns {string[]} an alarm while the operator is requested to take over, or offered not to drive */
function takeoverAlarm(sharing) {
  if (sharing?.takeover === "requested") return [`TAKE OVER within ${Math.ceil(sharing.takeover_time_left ?? NaN)} s (T): ${sharing.takeover_reason}`];
  if (sharing?.takeover === "offered") return [OFFER];
  return sharing?.takeover === "expired" ? [`nobody took over (T), the vehicle stops: ${sharing.takeover_reason}`] : [];
}

export class Panel {
  constructor() {
    this.bars = ["operator", "autonomy", "sent", "k", "threat"].map(name => this.#bar(name));
    this.loads = WHEELS.map(title => ({meter: make("meter", {max: 2, title}), word: make("span", {title})}));
    find("loads").replaceChildren(...this.loads.map(({meter, word}) => make("span", {}, meter, word)));
    this.alarmed = this.shownFacts = "";
    this.records = false;
    this.recordsSince = 0;
    this.sound = /** @type {AudioContext | null} */ (null);
  }

  /** @param {string} name @returns {Bar} */
  #bar(name) {
    const canvas = make("canvas", {width: 200, height: 14}), value = make("span");
    find("bars").append(make("div", {className: "bar"}, make("span", {textContent: name}), canvas, value));
    return {name, canvas, value};
  }

  /**
   * Shows the model.
   * @param {import("./model.js").Model} model
   * @param {import("./hands.js").Intent} intent of this page
   * @param {number} age of the state, s
   * @param {string} unit of speeds
   * @param {string} trouble in one line; empty: none
   * @param {boolean} reverse the keys drive backwards
   */
  show(model, intent, age, unit, trouble, reverse) {
    const {state, sharing} = model, texts = model.texts, seat = texts.seat;
    set("drives", driver(model));
    set("speed-value", state ? number(Math.abs(state.vx) * UNITS[unit], unit === "m/s" ? 1 : 0) : "-");
    set("speed-unit", unit);
    set("gear", state?.gear ? (state.gear < 0 ? "R" : `gear ${state.gear}`) : "");
    set("direction", reverse ? "KEYS IN REVERSE (Q)" : "");
    const stale = trouble || (age > 0.5 && !texts.replay ? (Number.isFinite(age) ? `no picture for ${age.toFixed(1)} s` : "no picture yet") : "");
    set("stale", stale);
    find("stale").hidden = !stale;
    this.#loads(model.loads);
    /** @type {Record<string, {command: number[] | undefined, colour: string}>} */
    const commands = {operator: {command: sharing?.operator ?? [intent.steering, intent.throttle, intent.brake], colour: "#e69f00"},
      autonomy: {command: sharing?.autonomy, colour: "#56b4e9"}, sent: {command: sharing?.applied, colour: "#ffffff"}};
    for (const bar of this.bars) {
      const shown = commands[bar.name];
      if (shown) this.#command(bar, shown.command, shown.colour);
      else this.#share(bar, bar.name === "k" ? sharing?.k : sharing?.threat);
    }
    const yours = seat?.yours && seat.drives;
    set("seat", !seat ? "" : yours ? "YOU DRIVE" : `${seat.drives ? `${seat.driver} drives. ` : seat.reason ? `${seat.reason}. ` : ""}`
      + "To drive hold Shift, and use W A S D or the arrows; or hold a pad's shoulder button; or touch.");
    find("seat").className = yours ? "yours" : "";
    const stopped = Boolean(seat?.stopped || texts.sharing?.emergency_stop);
    find("resume").hidden = !stopped;
    const takeover = texts.sharing?.takeover ?? "none", button = find("takeover", HTMLButtonElement);
    button.hidden = button.disabled = ["none", "offered", "given"].includes(takeover) || Boolean(texts.replay);
    button.className = takeover;
    set("takeover", takeover === "taken" ? "hand back (T)" : "TAKE OVER (T)");
    set("pause", texts.simulator?.paused ? "go on" : "pause");
    const mode = find("mode", HTMLSelectElement);
    mode.disabled = !texts.sharing;
    if (texts.sharing && document.activeElement !== mode) mode.value = texts.sharing.mode;
    const records = Boolean(texts.recording?.records);
    find("record").setAttribute("aria-pressed", String(records));
    set("record", records ? `REC ${clock((performance.now() - this.recordsSince) / 1000)}` : "record (R)");
    if (records !== this.records) [this.records, this.recordsSince] = [records, performance.now()];
    find("step").hidden = !texts.simulator?.paused || Boolean(texts.replay);
    const pace = find("pace", HTMLSelectElement);
    pace.disabled = !texts.simulator;
    if (texts.simulator && document.activeElement !== pace) pace.value = String(texts.simulator.pace_asked);
    for (const id of ["pause", "reset", "record"]) find(id, HTMLButtonElement).disabled = !texts.simulator;
    find("link").hidden = !texts.link || Boolean(texts.replay);
    if (texts.link) set("latency-value", `${Math.round(1000 * texts.link.p50.reduce((/** @type {number} */ sum, p) => sum + (p ?? 0), 0))} ms`);
    this.#alarms(texts, model.loads);
    this.#facts(model, seat);
  }

  /** @param {number[]} loads */
  #loads(loads) {
    this.loads.forEach(({meter, word}, i) => {
      const lifted = loads[i] < LIFTED;
      meter.hidden = !Number.isFinite(loads[i]);
      meter.value = Math.min(loads[i] || 0, 2);
      word.textContent = meter.hidden ? "" : lifted ? "LIFTED" : `${Math.round(100 * loads[i])} %`;
      word.className = lifted ? "lifted" : "";
    });
  }

  /** @param {Bar} bar @param {number[] | undefined} command @param {string} colour */
  #command({canvas, value}, command, colour) {
    const c = context2d(canvas), middle = canvas.width / 2;
    c.clearRect(0, 0, canvas.width, canvas.height);
    c.fillStyle = "#3a4650";
    c.fillRect(middle - 1, 0, 2, canvas.height);
    if (!command || !Number.isFinite(command[0])) { value.textContent = "-"; return; }
    c.fillStyle = colour;
    c.fillRect(Math.min(middle, middle * (1 - command[0])), 1, Math.abs(command[0]) * middle, 7);
    c.fillRect(0, 10, Math.abs(command[1]) * canvas.width, 4);
    c.fillStyle = "#d55e00";
    c.fillRect(canvas.width * (1 - command[2]), 10, command[2] * canvas.width, 4);
    value.textContent = command[0].toFixed(2);
  }

  /** @param {Bar} bar @param {number | undefined} share */
  #share({canvas, value}, share = NaN) {
    const c = context2d(canvas);
    c.clearRect(0, 0, canvas.width, canvas.height);
    c.strokeStyle = "#59636e";
    c.strokeRect(0.5, 2.5, canvas.width - 1, 9);
    c.fillStyle = "#56b4e9";
    if (Number.isFinite(share)) c.fillRect(0, 2, share * canvas.width, 10);
    value.textContent = number(share, 2);
  }

  /** @param {Texts} texts @param {number[]} loads */
  #alarms(texts, loads) {
    const simulator = texts.simulator;
    const alarms = [
      ...takeoverAlarm(texts.sharing),
      ...(simulator?.collisions ? [`collision with ${simulator.collided_with}${simulator.collisions > 1 ? `, ${simulator.collisions} in all` : ""}`] : []),
      ...WHEELS.filter((_, i) => loads[i] < LIFTED).map(name => `wheel lifted: ${name}`),
      ...(simulator?.not_driven ? [simulator.not_driven] : []),
      ...(texts.answer?.text ? [`${texts.answer.service}: ${texts.answer.text}`] : []),
      ...texts.warnings.warnings.map(([, name, text]) => `${name}: ${text}`)];
    const shown = alarms.slice(0, 6).join("\n");
    if (shown === this.alarmed) return;
    const worse = alarms.length > (this.alarmed ? this.alarmed.split("\n").length : 0);
    this.alarmed = shown;
    find("alarms").replaceChildren(...alarms.slice(0, 6).map(text => make("div", {textContent: `! ${text}`, className: text === OFFER ? "offer" : ""})));
    if (worse) this.#beep();
  }

  /** Browsers permit sound after the first key or click. */
  #beep() {
    if (!navigator.userActivation?.hasBeenActive) return;
    this.sound ??= new AudioContext();
    const tone = this.sound.createOscillator(), gain = this.sound.createGain();
    gain.gain.value = 0.08;
    tone.frequency.value = 880;
    tone.connect(gain).connect(this.sound.destination);
    tone.start();
    tone.stop(this.sound.currentTime + 0.15);
  }

  /** @param {import("./model.js").Model} model @param {Texts["seat"]} seat */
  #facts(model, seat) {
    const {controller, simulator, sharing, replay} = model.texts, {state, other} = model;
    const facts = {
      ...(model.texts.recording ? {[model.texts.recording.records ? "records to" : "recorded"]: model.texts.recording.bag} : {}),
      ...(state && other ? {[`ghost: ${replay?.other}`]: `${number(other.vx)} m/s, ${number(Math.hypot(other.x - state.x, other.y - state.y))} m away`} : {}),
      ...Object.fromEntries(state ? model.fleet.map(([number, x, y, , speed]) => [`vehicle ${model.texts.fleet?.names[number] ?? ""}`,
        `${speed.toFixed(1)} m/s, ${Math.hypot(x - state.x, y - state.y).toFixed(1)} m away`]) : []),
      "sideslip": `${number(model.sideslip)} deg`, "lateral acceleration": `${number(state?.ay)} m/s²`,
      ...(controller ? {"controller": `${controller.outcome}, ${number(1000 * (controller.cycle_time ?? NaN))} ms`, "to go": `${number(controller.distance_to_go, 0)} m`} : {}),
      ...Object.fromEntries((sharing?.threats ?? []).map(([name, value]) => [`threat: ${name}`, number(value ?? NaN, 2)])),
      ...Object.fromEntries((sharing?.risks ?? []).slice(0, 6).map(([name, ...values]) => {
        const [p, lower, upper] = values.map(value => number(100 * (value ?? NaN)));
        return [`risk: ${name}`, `${p} % (${lower} to ${upper})`];
      })),
      ...(simulator ? {"pace": `${number(simulator.pace, 2)} x ${simulator.slowed_by}`, "model": simulator.model} : {}),
      ...(seat ? {"pages": String(seat.pages), "inputs refused": String(seat.refused)} : {})};
    const text = Object.entries(facts).flat().join("|");
    if (text === this.shownFacts) return;
    this.shownFacts = text;
    find("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [
      make("dt", {textContent: name}), make("dd", {textContent: value})]));
  }
}
