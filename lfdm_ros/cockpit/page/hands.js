// Converts keys, a gamepad or touch to an intent. Independent of the page, for tests.

/** @typedef {{held: boolean, steering: number, throttle: number, brake: number}} Intent */

/** @type {Intent} */
export const RELEASED = Object.freeze({held: false, steering: 0, throttle: 0, brake: 0});

/** @param {number} value @param {number} lower @param {number} upper */
const clamp = (value, lower, upper) => Math.min(Math.max(value, lower), upper);

/** Effects of keys, by their names (KeyboardEvent.code), as CARLA's. @type {Record<string, string>} */
const KEYS = {KeyW: "throttle", ArrowUp: "throttle", KeyS: "brake", ArrowDown: "brake", KeyA: "left", ArrowLeft: "left", KeyD: "right",
  ArrowRight: "right", Space: "handBrake", ShiftLeft: "hold", ShiftRight: "hold"};
/** Says whether a key drives. @param {string} code */
export const isDriving = code => code in KEYS;
const STEERING_RATE = 1.2, CENTRING_RATE = 2.5, PEDAL_RATE = 2.0;  // 1/s

/** Pressed keys, with a rate-limited steering, reduced at speed. */
export class Keyboard {
  constructor() {
    /** @type {Set<string>} */
    this.down = new Set();
    this.reverse = false;
    this.steering = this.throttle = this.brake = 0;
  }

  /** Handles a pressed key; returns whether it drives. @param {string} code */
  press(code) {
    if (isDriving(code)) this.down.add(code);
    return isDriving(code);
  }

  /** @param {string} code */
  release(code) {
    this.down.delete(code);
    // Of both Shift keys down, some systems report the release of one only.
    if (code.startsWith("Shift")) ["ShiftLeft", "ShiftRight"].forEach(other => this.down.delete(other));
  }

  /** Releases all keys, since their release out of focus is not reported. */
  releaseAll() {
    this.down.clear();
    this.steering = this.throttle = this.brake = 0;
  }

  /** Advances steering and pedals. @param {number} dt s @param {number} speed m/s, forward @returns {Intent} */
  step(dt, speed) {
    const does = new Set([...this.down].map(code => KEYS[code]));
    /** @param {number} value @param {number} aim @param {number} rate */
    const to = (value, aim, rate) => value + clamp(aim - value, -rate * dt, rate * dt);
    const limit = 1 / (1 + Math.max(Math.abs(speed) - 5, 0) / 10);
    const aim = (does.has("left") ? limit : 0) - (does.has("right") ? limit : 0);
    this.steering = to(this.steering, aim, aim ? STEERING_RATE : CENTRING_RATE);
    this.throttle = does.has("throttle") ? to(this.throttle, 1, PEDAL_RATE) : 0;
    this.brake = does.has("handBrake") ? 1 : does.has("brake") ? to(this.brake, 1, PEDAL_RATE) : 0;
    if (!does.size) return RELEASED;
    return {held: true, steering: this.steering, throttle: (this.reverse ? -1 : 1) * this.throttle, brake: this.brake};
  }
}

/**
 * @typedef {{axes: readonly number[], buttons: readonly {pressed: boolean, value: number}[]}} PadState
 * @typedef {{axis: number, left: number, centre: number, right: number}} Steering
 * @typedef {{axis?: number, button?: number, rest: number, full: number}} Pedal of an axis or of a button
 * @typedef {{steering: Steering, throttle: Pedal, brake: Pedal, hold: readonly number[]}} Mapping hold: buttons, of which any one is held to drive
 */

/** Mapping of pads with the standard layout: left stick, triggers, either shoulder button to hold.
 * @type {Mapping} */
export const STANDARD = {steering: {axis: 0, left: -1, centre: 0, right: 1}, throttle: {button: 7, rest: 0, full: 1},
  brake: {button: 6, rest: 0, full: 1}, hold: [5, 4]};
const DEAD_ZONE = 0.06, EXPONENT = 1.5;

/**
 * Returns the share [0, 1] to which a pad's pedal is pressed; NaN where the pad has no such axis or button.
 * @param {Pedal} pedal
 * @param {PadState} pad
 */
export function pressed(pedal, pad) {
  const value = travel(pedal, pad), share = clamp((value - pedal.rest) / (pedal.full - pedal.rest), 0, 1);
  return share > DEAD_ZONE ? share : share >= 0 ? 0 : NaN;
}

/** @param {Pedal} pedal @param {PadState} pad */
const travel = (pedal, pad) => (pedal.axis !== undefined ? pad.axes[pedal.axis] : pad.buttons[pedal.button ?? -1]?.value) ?? NaN;

/** A gamepad or a wheel with pedals, by a mapping. */
export class Pad {
  /** @param {Mapping} mapping */
  constructor(mapping) {
    this.mapping = mapping;
    this.moved = {throttle: false, brake: false};  // a pedal that has not moved may report half of its travel
    /** @type {Record<string, number>} */
    this.first = {};
    this.letGo = false;  // since creation: a switch held through a loss does not count
  }

  /** Returns the intent of a pad's state. @param {PadState} pad @returns {Intent} */
  read(pad) {
    const {axis, left, centre, right} = this.mapping.steering, turned = pad.axes[axis];
    const held = this.mapping.hold.some(button => pad.buttons[button]?.pressed);
    const throttle = this.#pedal("throttle", pad), brake = this.#pedal("brake", pad);
    this.letGo ||= !held;
    if (!held || !this.letGo || !Number.isFinite(turned)) return {...RELEASED};
    const toLeft = (turned - centre) / (left - centre), share = toLeft > 0 ? toLeft : (centre - turned) / (right - centre);  // + left
    const beyond = Math.max(Math.min(Math.abs(share), 1) - DEAD_ZONE, 0) / (1 - DEAD_ZONE);
    return {held, steering: Math.sign(share) * beyond ** EXPONENT, throttle, brake};
  }

  /** Returns a pedal's position [0, 1]; 0 until it has moved. @param {"throttle" | "brake"} name @param {PadState} pad */
  #pedal(name, pad) {
    const pedal = this.mapping[name], value = travel(pedal, pad);
    if (!Number.isFinite(value)) return 0;
    this.first[name] ??= value;
    if (Math.abs(value - this.first[name]) > 0.05) this.moved[name] = true;
    return this.moved[name] ? pressed(pedal, pad) : 0;
  }
}

/** Two thumbs: the left one steers by its drag distance, the right one: up throttle, down brake. */
export class Touch {
  constructor() {
    /** @type {number | null} */
    this.steering = null;
    /** @type {number | null} */
    this.pedal = null;
  }

  /** Releases both thumbs. */
  releaseAll() {
    this.steering = this.pedal = null;
  }

  /** @returns {Intent} */
  read() {
    if (this.steering === null) return RELEASED;  // the left thumb is the dead man's switch
    const pedal = this.pedal ?? 0;
    return {held: true, steering: clamp(this.steering, -1, 1), throttle: clamp(pedal, 0, 1), brake: clamp(-pedal, 0, 1)};
  }
}

/**
 * Returns the intent of the held device; of several the largest brake, the rest of the first.
 * @param {Intent[]} intents
 * @returns {Intent}
 */
export function together(intents) {
  const held = intents.filter(intent => intent.held);
  return held.length ? {...held[0], brake: Math.max(...held.map(intent => intent.brake))} : RELEASED;
}
