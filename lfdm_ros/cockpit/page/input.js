// Keys, pads and touches of the page, sent 50 times a second and at once when the switch changes. Any loss of sight releases everything.

import {Keyboard, Pad, RELEASED, STANDARD, Touch, together} from "./hands.js";

const PERIOD = 20;  // ms
const LOSSES = ["blur", "pagehide", "freeze"];

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
    this.intent = RELEASED;
    this.steppedAt = performance.now();
    addEventListener("keydown", event => this.#onKey(event, onKey));
    addEventListener("keyup", event => { this.keyboard.release(event.code); this.#tick(); });
    for (const loss of LOSSES) addEventListener(loss, () => this.releaseAll());
    document.addEventListener("visibilitychange", () => document.hidden && this.releaseAll());
    addEventListener("gamepaddisconnected", event => { this.pads.delete(event.gamepad.index); this.releaseAll(); });
    this.#drag(zones.touchSteer, (dx, _, box) => { this.touch.steering = -dx / (0.4 * box.width); }, () => { this.touch.steering = null; });
    this.#drag(zones.touchPedals, (_, dy, box) => { this.touch.pedal = -dy / (0.4 * box.height); }, () => { this.touch.pedal = null; });
    setInterval(() => this.#tick(), PERIOD);
  }

  /** Lets go of all devices, and says so at once. Pads must move their pedals again. */
  releaseAll() {
    this.keyboard.releaseAll();
    this.touch.releaseAll();
    this.pads.clear();
    this.intent = RELEASED;
    this.send(RELEASED);
  }

  /** Changes between forwards and reverse; returns whether it is reverse now. */
  toggleReverse() {
    this.keyboard.reverse = !this.keyboard.reverse;
    return this.keyboard.reverse;
  }

  #onKey(event, onKey) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement) return;
    const onButton = event.target instanceof HTMLButtonElement && (event.code === "Space" || event.code === "Enter");
    if (onButton) return;  // the button's own key
    if (this.keyboard.press(event.code)) {
      event.preventDefault();
      this.#tick();
    } else if (!event.repeat) {
      onKey(event.code, event);
    }
  }

  #drag(zone, move, end) {
    let pointer = -1, x = 0, y = 0;
    zone.addEventListener("pointerdown", event => {
      if (pointer >= 0) return;
      [pointer, x, y] = [event.pointerId, event.clientX, event.clientY];
      zone.setPointerCapture(pointer);
      move(0, 0, zone.getBoundingClientRect());
      this.#tick();
    });
    zone.addEventListener("pointermove", event => {
      if (event.pointerId === pointer) move(event.clientX - x, event.clientY - y, zone.getBoundingClientRect());
    });
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) {
      zone.addEventListener(name, event => {
        if (event.pointerId !== pointer) return;
        pointer = -1;
        end();
        this.#tick();
      });
    }
  }

  #padIntents() {
    return [...(navigator.getGamepads?.() ?? [])].filter(pad => pad?.connected).map(pad => {
      if (pad.mapping !== "standard") {
        this.notify(`${pad.id}: its axes are not known here; drive it by lfdm teleop --joystick`);
        return RELEASED;
      }
      if (!this.pads.has(pad.index)) this.pads.set(pad.index, new Pad(STANDARD));
      return this.pads.get(pad.index).read(pad);
    });
  }

  #tick() {
    const now = performance.now(), dt = Math.min((now - this.steppedAt) / 1000, 0.1);
    this.steppedAt = now;
    const keys = this.keyboard.step(dt, this.speed());
    this.intent = document.hidden ? RELEASED : together([...this.#padIntents(), keys, this.touch.read()]);
    this.send(this.intent);
  }
}
