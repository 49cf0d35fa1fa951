// Learns a device's mapping by "turn, press": the steering axis, axes or buttons of the pedals, the dead man's button.

import {pressed} from "./hands.js";

/**
 * @typedef {import("./hands.js").PadState} PadState
 * @typedef {import("./hands.js").Pedal} Pedal
 * @typedef {Map<string, number>} Values by name, "axis 0" or "button 4"
 */

const MOVED = 0.3;  // from rest: counts as an answer
const STILL = 0.05, STAY = 0.3;  // an answer stays within this, for this time, s
const STAY_UNKNOWN = 0.8;  // s, while a pedal's rest is unknown: a foot may hesitate on its way back
const PATIENCE = 2;  // s that a released pedal may read as pressed

/** @type {Record<string, string>} */
const PROMPTS = {
  rest: "Let everything go, with the wheel straight.",
  left: "Turn fully left and stay there for a moment.",
  right: "Turn fully right and stay there for a moment.",
  throttle: "Press the throttle fully for a moment, then release it.",
  brake: "Press the brake fully for a moment, then release it.",
  hold: "Press the button or paddle that must be held to drive.",
  check: "Let everything go once more."};
const STEPS = Object.keys(PROMPTS);

/** @typedef {"throttle" | "brake"} PedalName */
const PEDALS = /** @type {const} */ (["throttle", "brake"]);

const numberOf = (/** @type {string} */ name) => Number(name.split(" ")[1]);
const nameOf = (/** @type {Partial<Pedal>} */ {axis, button}) => axis === undefined ? `button ${button}` : `axis ${axis}`;
const isAxis = (/** @type {string} */ name) => name.startsWith("axis");

/** Returns an empty mapping. @returns {import("./hands.js").Mapping} */
const emptyMapping = () => ({steering: {axis: -1, left: NaN, centre: NaN, right: NaN}, throttle: {rest: NaN, full: NaN}, brake: {rest: NaN, full: NaN}, hold: []});

/** Time for which values stay constant. */
class Stillness {
  constructor() {
    this.values = /** @type {Values | null} */ (null);
    this.since = NaN;
    this.moving = "";
  }

  /** Returns it in s. @param {Values} values @param {number} now */
  seconds(values, now) {
    const before = this.values;
    const moving = [...values.keys()].find(name => !(Math.abs((values.get(name) ?? NaN) - (before?.get(name) ?? NaN)) <= STILL));
    if (moving || before?.size !== values.size) [this.values, this.since, this.moving] = [new Map(values), now, before && moving || ""];
    return now - this.since;
  }
}

/** Learns a mapping from a person who follows prompts. Independent of page and clock. */
export class Teacher {
  constructor() {
    this.error = "";
    /** At rest. @type {Values} */
    this.rest = new Map();
    this.mapping = emptyMapping();
    this.at = "";
    this.still = new Stillness();
    this.steers = "";
    this.candidate = /** @type {string | null} */ (null);
    /** The pedal that is pressed. @type {{name: string, rest: number, least: number, most: number} | null} */
    this.press = null;
    this.before = this.rest;
    this.ready = /** @type {Set<string>} */ (new Set());
    this.#begin("rest", new Map());
  }

  /**
   * Processes the state of the device.
   * @param {PadState} pad
   * @param {number} now s, of any clock that only goes forwards
   * @returns {{prompt: string, number: number, of: number, reads: string, done: boolean, error: string,
   *   mapping: import("./hands.js").Mapping | null}} error: why the last answer was refused. mapping: once done.
   */
  step(pad, now) {
    const all = [...[...pad.axes].map((value, k) => [`axis ${k}`, value]), ...[...pad.buttons].map((button, k) => [`button ${k}`, button.value])];
    const values = new Map(/** @type {[string, number][]} */ (all.filter(([, value]) => Number.isFinite(value))));
    this.#widen(values);
    if (this.at === "rest") this.#rest(values, now);
    else if (this.at === "check") this.#check(pad, values, now);
    else if (this.press) this.#release(values, now);
    else if (this.at !== "done") this.#answer(pad, values, now);
    const done = this.at === "done", strongest = this.#strongest(values, () => true);
    return {prompt: done ? "Done." : this.press ? `Now release the ${this.at}.` : PROMPTS[this.at], number: STEPS.indexOf(this.at) + 1,
      of: STEPS.length, reads: strongest ? `${strongest} reads ${(values.get(strongest) ?? 0).toFixed(2)}`
        : this.at === "rest" && this.still.moving ? `${this.still.moving} moves` : "nothing moves",
      done, error: this.error, mapping: done ? this.mapping : null};
  }

  /** Begins a step. Displaced axes and buttons must return to rest before they are an answer. @param {string} step @param {Values} values @param {string} error */
  #begin(step, values, error = "") {
    const again = step === this.at;
    this.at = step;
    this.error = error;
    this.still = new Stillness();
    this.candidate = this.press = null;
    this.before = values;
    this.ready = new Set();
    // Pedals that have moved meanwhile rest where they are now. The wheel may still be turned, and after a wrong answer that is still pressed.
    if (!again && !["rest", "left", "right"].includes(step)) {
      for (const [name, value] of values) if (name !== this.steers) this.rest.set(name, value);
    }
  }

  /** @param {string} name @param {Values} values */
  #offset(name, values) {
    return Math.abs((values.get(name) ?? NaN) - (this.rest.get(name) ?? NaN));
  }

  /** @param {string} name @param {Values} values */
  #isAway(name, values) {
    return this.#offset(name, values) >= MOVED;
  }

  /** Returns the name of the value furthest from rest; null: all at rest. @param {Values} values @param {(name: string) => boolean} among */
  #strongest(values, among) {
    const [first] = [...values.keys()].filter(name => this.#isAway(name, values) && among(name))
      .sort((a, b) => this.#offset(b, values) - this.#offset(a, values));
    return first ?? null;
  }

  /** @param {Values} values @param {number} now */
  #rest(values, now) {
    if (this.still.seconds(values, now) < STAY) return;
    this.rest = new Map(values);
    this.#begin("left", values, this.error);
  }

  /** Waits until one axis or button is away from its rest and stays. @param {PadState} pad @param {Values} values @param {number} now */
  #answer(pad, values, now) {
    for (const [name, value] of values) {
      const rest = this.rest.get(name) ?? NaN, offset = value - rest, before = (this.before.get(name) ?? NaN) - rest;
      if (!this.#isAway(name, values) || Math.sign(offset) !== Math.sign(before)) this.ready.add(name);
    }
    const among = (/** @type {(name: string) => boolean} */ test) => this.#strongest(values, name => this.ready.has(name) && test(name));
    // Only a pressed button counts, for any angle of the wheel.
    const name = this.at !== "hold" ? among(() => true)
      : among(name => !isAxis(name) && pad.buttons[numberOf(name)]?.pressed) ?? among(name => isAxis(name) && name !== this.steers);
    if (name !== this.candidate) [this.candidate, this.still] = [name, new Stillness()];
    if (!name || this.still.seconds(new Map([[name, values.get(name) ?? NaN]]), now) < STAY) return;
    this.#take(name, values);
  }

  /** Accepts an answer, or refuses it with a message and continues at the same step or an earlier one. @param {string} name @param {Values} values */
  #take(name, values) {
    const value = values.get(name) ?? NaN, rest = this.rest.get(name) ?? NaN, {steering} = this.mapping;
    const again = (/** @type {string} */ error, step = this.at) => this.#begin(step, values, error);
    if (this.at === "left") {
      if (!isAxis(name)) return again(`${name} is no axis: turn the wheel, or push a stick.`);
      this.steers = name;
      this.mapping.steering = {axis: numberOf(name), left: value, centre: rest, right: rest};
      return this.#begin("right", values);
    }
    if (this.at === "right") {
      if (name !== this.steers) return again(`Left was ${this.steers}, right ${name}: turn the same wheel to both sides.`, "left");
      const toLeft = steering.left - rest, toRight = value - rest;
      if (toLeft * toRight > 0) return again("That is the same side as left: turn to the other one.");
      const share = Math.abs(toRight / toLeft);
      if (share < 0.5 || share > 2) return again("One side is much shorter than the other: begin with the wheel straight, and turn it fully.", "rest");
      steering.right = value;
      return this.#begin("throttle", values);
    }
    if (this.at === "hold") {
      const pedal = PEDALS.find(pedal => this.#isAway(nameOf(this.mapping[pedal]), values));
      if (pedal) return again(`${name} moves with the ${pedal}: to drive, hold something else.`);
      if (isAxis(name)) return again(`${name} is no button: press a button or paddle.`);
      this.mapping.hold = [numberOf(name)];
      return this.#begin("check", values);
    }
    if (name === this.steers) return again(`${name} steers: it cannot be the ${this.at} as well.`);
    const {throttle} = this.mapping;
    // Both pedals on one axis, to either side of its rest, is how old wheels are made.
    if (this.at === "brake" && name === nameOf(throttle) && (value - throttle.rest) * (throttle.full - throttle.rest) > 0) {
      return again(`${name} is the throttle already: press the brake.`);
    }
    this.press = {name, rest, least: value, most: value};
    this.still = new Stillness();
    this.error = "";
  }

  /** Waits until a pedal is back. Its rest is read only then: before a pedal first moves, browsers may show 0, half of its travel. @param {Values} values @param {number} now */
  #release(values, now) {
    const press = this.press;
    if (!press) return;
    const {name, rest} = press, value = values.get(name) ?? rest;
    press.least = Math.min(press.least, value);
    press.most = Math.max(press.most, value);
    const full = value - press.least > press.most - value ? press.least : press.most;  // the furthest from here
    const unknown = isAxis(name) && rest === 0;
    const back = Math.abs(value - full) >= MOVED && (unknown || !this.#isAway(name, values));
    if (this.still.seconds(new Map([[name, value]]), now) < (unknown ? STAY_UNKNOWN : STAY) || !back) return;
    this.mapping[/** @type {PedalName} */ (this.at)] = {[isAxis(name) ? "axis" : "button"]: numberOf(name), rest: value, full};
    this.#begin(this.at === "throttle" ? "brake" : "hold", values);
  }

  /** Ends when all is let go and reads so. A pedal taught the wrong way round would be fully open now. @param {PadState} pad @param {Values} values @param {number} now */
  #check(pad, values, now) {
    const wrong = PEDALS.find(pedal => pressed(this.mapping[pedal], pad) !== 0)
      ?? (this.mapping.hold.some(button => pad.buttons[button]?.pressed) ? "hold" : "");
    /** @type {Values} */
    const followed = new Map([["wrong", wrong ? 1 : 0]]);
    for (const name of [this.mapping.throttle, this.mapping.brake].map(nameOf)) followed.set(name, values.get(name) ?? NaN);
    const seconds = this.still.seconds(followed, now);
    if (!wrong && seconds >= STAY) this.at = "done";
    else if (wrong && seconds >= PATIENCE) {
      const what = wrong === "hold" ? "The button that is held to drive stays pressed: press another one."
        : `The ${wrong} reads as pressed while it is let go: once more.`;
      this.#begin(wrong, values, what);
    }
  }

  /** Takes the furthest that the wheel has been turned. @param {Values} values */
  #widen(values) {
    const {steering} = this.mapping, value = values.get(this.steers);
    if (value === undefined) return;
    const toLeft = Math.sign(steering.left - steering.centre);
    if ((value - steering.left) * toLeft > 0) steering.left = value;
    if (steering.right !== steering.centre && (steering.right - value) * toLeft > 0) steering.right = value;
  }
}
