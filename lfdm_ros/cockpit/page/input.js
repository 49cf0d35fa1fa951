// Keys, pads and touches of the page, sent 50 times a second and at once when the switch changes. Any loss of sight releases everything.

import {connectedPads, mappingOf} from "./devices.js";
import {Keyboard, Pad, RELEASED, Touch, isDriving, together} from "./hands.js";

const PERIOD = 20;  // ms
const RUMBLE_THREAT = 0.7, RUMBLE_PERIOD = 500, RUMBLE_DURATION = 150;  // 1, ms, ms
// Events after which releases of keys are not reported: other windows, dragged text, menus, open lists, text fields.
const LOSSES = ["blur", "pagehide", "freeze", "dragstart", "contextmenu", "beforeunload"];
const isField = (/** @type {EventTarget | null} */ target) => target instanceof HTMLSelectElement || target instanceof HTMLInputElement;

const isModified = (/** @type {KeyboardEvent} */ event) => event.ctrlKey || event.metaKey || event.altKey || /^(Meta|Control|Alt)/.test(event.code);

export class Input {
  /**
   * @param {{touchSteer: HTMLElement, touchPedals: HTMLElement}} zones
   * @param {(intent: import("./hands.js").Intent) => void} send
   * @param {() => number} speed of the vehicle, m/s
   * @param {(code: string, event: KeyboardEvent) => void} onKey takes keys that do not drive
   * @param {(text: string) => void} notify
   */
  constructor(zones, send, speed, onKey, notify) {
    this.send = send;
    this.speed = speed;
    this.notify = notify;
    this.keyboard = new Keyboard();
    this.touch = new Touch();
    /** @type {Map<number, Pad>} */
    this.pads = new Map();
    /** @type {((pads: Gamepad[]) => void) | null} */
    this.borrower = null;
    this.losses = 0;
    this.unknown = "";  // notice on unknown devices
    this.rumbledAt = -Infinity;
    this.intent = RELEASED;
    this.steppedAt = performance.now();
    addEventListener("keydown", event => this.#onKey(event, onKey));
    addEventListener("keyup", event => {
      if (isModified(event)) this.releaseAll();  // some systems withhold the release of other keys
      this.keyboard.release(event.code);
      this.#tick();
    });
    for (const loss of LOSSES) addEventListener(loss, () => this.releaseAll(), true);
    for (const name of ["focusin", "pointerdown"]) addEventListener(name, event => isField(event.target) && this.releaseAll(), true);
    // A focused button would consume Space, the brake.
    addEventListener("click", event => event.detail > 0 && event.target instanceof HTMLButtonElement && event.target.blur());
    document.addEventListener("visibilitychange", () => document.hidden && this.releaseAll());
    addEventListener("gamepaddisconnected", event => { this.pads.delete(event.gamepad.index); this.releaseAll(); });
    this.#drag(zones.touchSteer, (dx, _, box) => { this.touch.steering = -dx / (0.4 * box.width); }, () => { this.touch.steering = null; });
    this.#drag(zones.touchPedals, (_, dy, box) => { this.touch.pedal = -dy / (0.4 * box.height); }, () => { this.touch.pedal = null; });
    setInterval(() => this.#tick(), PERIOD);
  }

  /** Releases all devices and sends this at once. Pads must be released and move their pedals again, thumbs must be lifted. */
  releaseAll() {
    this.losses += 1;
    this.keyboard.releaseAll();
    this.touch.releaseAll();
    this.pads.clear();
    this.intent = RELEASED;
    this.send(RELEASED);
  }

  /** Toggles reverse of the keys, only near standstill and without throttle; returns the reason of a refusal, or an empty text. */
  toggleReverse() {
    if (this.intent.throttle || Math.abs(this.speed()) > 1) return "reverse: let go of the throttle and stop first";
    this.keyboard.reverse = !this.keyboard.reverse;
    return "";
  }

  /**
   * Passes the pads' readings to a borrower; nothing drives meanwhile. null: returns them.
   * @param {((pads: Gamepad[]) => void) | null} borrower
   */
  lend(borrower) {
    this.borrower = borrower;
    this.unknown = "";
    this.releaseAll();
  }

  /** Rumbles capable pads, shortly and at most twice a second, while the threat is large. @param {number} threat */
  rumble(threat) {
    const now = performance.now();
    if (!(threat > RUMBLE_THREAT) || now - this.rumbledAt < RUMBLE_PERIOD) return;
    for (const pad of connectedPads()) {
      const shaken = /** @type {Promise<unknown> | undefined} */ (pad.vibrationActuator?.playEffect?.("dual-rumble",
        {duration: RUMBLE_DURATION, strongMagnitude: Math.min(threat, 1), weakMagnitude: Math.min(threat, 1)}));
      if (shaken) this.rumbledAt = now;
      shaken?.catch?.(() => {});  // no rumble, or just disconnected
    }
  }

  /** @param {KeyboardEvent} event @param {(code: string, event: KeyboardEvent) => void} onKey */
  #onKey(event, onKey) {
    if (event.code === "Escape" && !this.borrower) {  // regardless of the focus
      onKey(event.code, event);
      return;
    }
    if (isModified(event)) this.releaseAll();
    if (isModified(event) || isField(event.target)) return;
    const onButton = event.target instanceof HTMLButtonElement;
    // The button's own keys; but Space brakes while something else is held, and Shift with Tab only moves the focus.
    if (onButton && (event.code === "Enter" || event.key === "Shift" || (event.code === "Space" && !this.intent.held))) return;
    // A key that repeats has been down since before a loss: it must be pressed anew.
    if (event.repeat || this.borrower ? isDriving(event.code) : this.keyboard.press(event.code)) {
      event.preventDefault();
      this.#tick();
    } else if (!event.repeat) {
      onKey(event.code, event);
    }
  }

  /** @param {HTMLElement} zone @param {(dx: number, dy: number, box: DOMRect) => void} move @param {() => void} end */
  #drag(zone, move, end) {
    let pointer = -1, x = 0, y = 0, losses = 0;
    zone.addEventListener("pointerdown", event => {
      if (pointer >= 0) return;
      [pointer, x, y, losses] = [event.pointerId, event.clientX, event.clientY, this.losses];
      zone.setPointerCapture(pointer);
      move(0, 0, zone.getBoundingClientRect());
      this.#tick();
    });
    zone.addEventListener("pointermove", event => {
      if (event.pointerId === pointer && losses === this.losses) move(event.clientX - x, event.clientY - y, zone.getBoundingClientRect());
    });
    for (const name of /** @type {const} */ (["pointerup", "pointercancel", "lostpointercapture"])) {
      zone.addEventListener(name, event => {
        if (event.pointerId !== pointer) return;
        pointer = -1;
        end();
        this.#tick();
      });
    }
  }

  /** @param {Gamepad[]} pads */
  #padIntents(pads) {
    const unknown = pads.filter(pad => !mappingOf(pad)).map(pad => `${pad.id}: press teach device once`).join("; ");
    if (unknown !== this.unknown) this.notify(unknown);
    this.unknown = unknown;
    return pads.map(pad => {
      const mapping = mappingOf(pad);
      if (!mapping) return RELEASED;
      const known = this.pads.get(pad.index), reader = known?.mapping === mapping ? known : new Pad(mapping);
      this.pads.set(pad.index, reader);
      return reader.read(pad);
    });
  }

  #tick() {
    const now = performance.now(), dt = Math.min((now - this.steppedAt) / 1000, 0.1);
    this.steppedAt = now;
    const keys = this.keyboard.step(dt, this.speed());
    const pads = connectedPads();
    const intents = this.borrower ? [] : [...this.#padIntents(pads), keys, this.touch.read()];
    this.borrower?.(pads);
    this.intent = document.hidden || !document.hasFocus() || isField(document.activeElement) ? RELEASED : together(intents);
    this.send(this.intent);
  }
}
